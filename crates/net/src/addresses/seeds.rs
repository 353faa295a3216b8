//! Addresses that are built in, for when nobody else tells any.
//!
//! In:     a network's parameters.
//! Out:    addresses to put into the book.
//! Fails:  never; a test reads every line.
//! Source: `primitives::Params::fixed_seeds`.

use primitives::Params;

use crate::wire::{Endpoint, PeerAddress, Services};

/// What built-in addresses are taken to offer; Core's `SeedsServiceFlags`.
pub const FIXED_SEED_SERVICES: Services = Services::NETWORK.and(Services::WITNESS);

/// The built-in addresses, last seen one to two weeks ago as Core says of its own.
pub fn fixed_seeds(params: &Params, now_s: u64) -> Vec<PeerAddress> {
    let lines = params.fixed_seeds.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let endpoints = lines.filter_map(|line| line.parse::<Endpoint>().ok());
    let address = |endpoint: Endpoint| PeerAddress {
        time_s: now_s.saturating_sub(10 * 24 * 3600) as u32,
        services: FIXED_SEED_SERVICES,
        endpoint,
    };
    endpoints.map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::is_routable;
    use primitives::Network;

    #[test]
    fn every_line_is_an_address_somebody_can_reach() {
        for network in Network::ALL {
            let params = Params::of(network);
            let lines = params.fixed_seeds.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
            let seeds = fixed_seeds(&params, 1_800_000_000);
            assert_eq!(seeds.len(), lines, "{network}");
            assert_eq!(seeds.is_empty(), network == Network::Regtest);
            assert!(seeds.iter().all(|seed| is_routable(&seed.endpoint.host)), "{network}");
        }
    }
}

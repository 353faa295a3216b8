//! Constants of the network that settings may change: for tests and private chains.
//!
//! In:     the settings `activation_heights` and `chainwork_min`.
//! Out:    [`Params`].
//! Fails:  where they are malformed, or change a rule of a chain that others share.
//! Source: Bitcoin Core, `-testactivationheight`, `-minimumchainwork`.

use primitives::network::{Network, Params};
use stdx::hex;

use super::sources::{ConfigError, Layers};
use super::value::Value;

/// The network's constants as the settings have them.
pub(super) fn resolve(layers: &Layers, network: Network) -> Result<Params, ConfigError> {
    let mut params = Params::of(network);
    if let (Value::Text(text), source) = layers.get("activation_heights") {
        let bad = |why: String| ConfigError::BadValue {
            setting: "activation_heights",
            source: source.clone(),
            why,
            accepted: "bip34, dersig, cltv, csv and segwit, each with @ and a height, between commas".to_owned(),
        };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            if network != Network::Regtest {
                return Err(bad(format!("the rules of {network} are not ours to move")));
            }
            activate(&mut params, part).ok_or_else(|| bad(format!("{part:?} is no rule with a height")))?;
        }
    }
    if let (Value::Text(text), source) = layers.get("chainwork_min") {
        params.minimum_chainwork = work(&text).ok_or_else(|| ConfigError::BadValue {
            setting: "chainwork_min",
            source,
            why: format!("{text:?} is no work"),
            accepted: "at most 64 hexadecimal digits or \"auto\"".to_owned(),
        })?;
    }
    Ok(params)
}

fn activate(params: &mut Params, part: &str) -> Option<()> {
    let (rule, height) = part.split_once('@')?;
    let height = height.parse().ok().filter(|height| *height < i32::MAX as u32)?;
    let place = match rule {
        "bip34" => &mut params.bip34_height,
        "dersig" => &mut params.bip66_height,
        "cltv" => &mut params.bip65_height,
        "csv" => &mut params.csv_height,
        "segwit" => &mut params.segwit_height,
        _ => return None,
    };
    *place = height;
    Some(())
}

fn work(text: &str) -> Option<[u8; 32]> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.is_empty() || digits.len() > 64 {
        return None;
    }
    hex::decode_array(&format!("{digits:0>64}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(chain: &str, name: &str, text: &str) -> Result<Params, String> {
        let flags = [("chain", chain), (name, text)].map(|(name, text)| (name.to_owned(), text.to_owned()));
        let layers = Layers::of_process(&flags, []).map_err(|error| error.to_string())?;
        resolve(&layers, chain.parse()?).map_err(|error| error.to_string())
    }

    #[test]
    fn rules_move_on_regtest_only() {
        let params = with("regtest", "activation_heights", "bip34@2, dersig@3,cltv@4,csv@5,segwit@6").unwrap();
        let heights = (params.bip34_height, params.bip66_height, params.bip65_height, params.csv_height);
        assert_eq!((heights, params.segwit_height), ((2, 3, 4, 5), 6));
        for (chain, text) in [("regtest", "bip34"), ("regtest", "taproot@1"), ("regtest", "csv@-1"), ("main", "csv@1")]
        {
            let error = with(chain, "activation_heights", text).unwrap_err();
            assert!(error.starts_with("setting \"activation_heights\" (command line): "), "{error}");
        }
        assert_eq!(with("main", "activation_heights", "").unwrap().csv_height, 419_328);
        assert!(with("regtest", "activation_heights", "csv@2147483646").is_ok());
        assert!(with("regtest", "activation_heights", "csv@2147483647").is_err());
    }

    #[test]
    fn the_least_work_is_a_number_of_256_bits() {
        let least = |text: &str| with("regtest", "chainwork_min", text).map(|params| params.minimum_chainwork);
        assert_eq!(least("auto").unwrap(), Params::of(Network::Regtest).minimum_chainwork);
        let mut want = [0; 32];
        want[31] = 0x1f;
        assert_eq!(least("0x1f").unwrap(), want);
        assert_eq!(least(&format!("{:064x}", 0x1f)).unwrap(), want);
        assert!(least(&"0".repeat(65)).is_err() && least("0x").is_err() && least("g").is_err());
    }
}

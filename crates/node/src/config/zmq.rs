//! The part of the configuration that ZeroMQ has.
//!
//! In:     the settings that begin with `zmq_pub_`.
//! Out:    what is published where, in the order of the table.
//! Fails:  where an address cannot be read, or one is named twice for a topic.

use serve::zmq::{Address, Notifier, Topic};

use super::value::Value;
use super::{ConfigError, Layers, whole};

/// The settings of a topic: its addresses, its high-water mark.
fn names(topic: Topic) -> (&'static str, &'static str) {
    match topic {
        Topic::HashBlock => ("zmq_pub_hashblock", "zmq_pub_hashblock_hwm"),
        Topic::HashTx => ("zmq_pub_hashtx", "zmq_pub_hashtx_hwm"),
        Topic::RawBlock => ("zmq_pub_rawblock", "zmq_pub_rawblock_hwm"),
        Topic::RawTx => ("zmq_pub_rawtx", "zmq_pub_rawtx_hwm"),
        Topic::Sequence => ("zmq_pub_sequence", "zmq_pub_sequence_hwm"),
    }
}

/// Everything that is published.
pub fn resolve(layers: &Layers) -> Result<Vec<Notifier>, ConfigError> {
    let mut notifiers: Vec<Notifier> = Vec::new();
    for topic in Topic::ALL {
        let (setting, mark) = names(topic);
        let (Value::Text(text), source) = layers.get(setting) else { continue };
        let high_water_mark = whole(layers, mark) as usize;
        let told = |why| ConfigError::BadValue {
            setting,
            source: source.clone(),
            why,
            accepted: "addresses such as tcp://127.0.0.1:28332 or ipc:///path, between spaces".to_owned(),
        };
        for word in text.split_whitespace() {
            let address: Address = word.parse().map_err(told)?;
            if notifiers.iter().any(|other| other.topic == topic && other.address == address) {
                return Err(told(format!("{word:?} is named twice")));
            }
            notifiers.push(Notifier { topic, address, high_water_mark });
        }
    }
    Ok(notifiers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(values: &[(&str, &str)]) -> Result<Vec<(&'static str, String, usize)>, String> {
        let flags: Vec<(String, String)> = values.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let layers = Layers::of_process(&flags, std::iter::empty()).map_err(|error| error.to_string())?;
        let notifiers = resolve(&layers).map_err(|error| error.to_string())?;
        Ok(notifiers.iter().map(|n| (n.topic.name(), n.address.to_string(), n.high_water_mark)).collect())
    }

    #[test]
    fn settings_become_notifiers() {
        assert_eq!(resolved(&[]).unwrap(), []);
        let two = "tcp://127.0.0.1:28333 ipc:///tmp/x";
        let got = resolved(&[
            ("zmq_pub_rawtx", two),
            ("zmq_pub_rawtx_hwm", "7"),
            ("zmq_pub_hashblock", "tcp://127.0.0.1:28333"),
        ]);
        let want = [
            ("hashblock", "tcp://127.0.0.1:28333", 1000),
            ("rawtx", "tcp://127.0.0.1:28333", 7),
            ("rawtx", "ipc:///tmp/x", 7),
        ];
        assert_eq!(got.unwrap(), want.map(|(topic, address, mark)| (topic, address.to_owned(), mark)));
        for (name, value, word) in [
            ("zmq_pub_rawtx", "127.0.0.1:1", "begins with neither"),
            ("zmq_pub_sequence", "tcp://1.1.1.1:1 tcp://1.1.1.1:1", "named twice"),
            ("zmq_pub_rawtx_hwm", "0", "out of range"),
            ("zmq_pub_rawtx_hwm", "1000001", "out of range"),
        ] {
            let told = resolved(&[(name, value)]).unwrap_err();
            assert!(told.contains(name) && told.contains(word), "{told}");
        }
        assert!(resolved(&[("zmq_pub_rawtx_hwm", "1000000")]).is_ok());
    }
}

//! The node itself: help, stop, and what can be asked about it.
//!
//! In:     names of methods, of indexes, of log categories.
//! Out:    texts and objects with Core's members.
//! Fails:  with Core's sentences for names that do not exist.
//! Source: Bitcoin Core, `src/rpc/server.cpp`, `src/rpc/node.cpp`, `src/rpc/blockchain.cpp`.

use std::time::Duration;

use chain::Phase;
use primitives::Network;

use crate::json::Json;
use crate::rpc::call::Call;
use crate::rpc::error::{Outcome, RpcError};
use crate::rpc::method::{Arg, HIDDEN, Kind, Method};
use crate::rpc::{help, openrpc};

/// Longest time that `stop` waits before it answers.
const STOP_WAIT_MAX: Duration = Duration::from_secs(60);

fn show_help(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    match call.optional_text(0)?.as_deref() {
        Some("dump_all_command_conversions") => help::write_conversions(json),
        Some(command) if !command.is_empty() => json.text(&help::command(command)),
        _ => json.text(&help::overview()),
    }
    Ok(())
}

fn stop(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    call.env.host.stop();
    if let Some(wait_ms) = call.optional_integer::<u64>(0)? {
        std::thread::sleep(Duration::from_millis(wait_ms).min(STOP_WAIT_MAX));
    }
    json.text("Assay stopping");
    Ok(())
}

fn uptime(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    json.number(call.env.host.uptime_s());
    Ok(())
}

fn rpc_info(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    json.begin_object();
    json.key("active_commands").begin_array();
    for active in call.env.active() {
        json.begin_object();
        json.key("method").text(active.method);
        json.key("duration").number(active.since.elapsed().as_micros() as u64);
        json.end_object();
    }
    json.end_array();
    json.key("logpath").text(&call.env.host.log_path());
    json.end_object();
    Ok(())
}

fn memory_info(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    match &*call.text(0)? {
        // Core locks memory for private keys of wallets; there is no wallet here, and nothing is locked.
        "stats" => {
            json.begin_object();
            json.key("locked").begin_object();
            for name in ["used", "free", "total", "locked", "chunks_used", "chunks_free"] {
                json.key(name).number(0);
            }
            json.end_object();
            json.end_object();
            Ok(())
        }
        "mallocinfo" => Err(RpcError::parameter("mallocinfo mode not available")),
        other => Err(RpcError::parameter(format!("unknown mode {other}"))),
    }
}

/// What Core's lines are sorted by, as far as ours are (see the setting `log_file`).
const LOG_CATEGORIES: [&str; 9] =
    ["cmpctblock", "estimatefee", "http", "mempool", "mempoolrej", "net", "rpc", "txpackages", "validation"];

fn logging(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    for index in 0..2 {
        let list = call.arg(index);
        for category in if list.is_null() { Vec::new() } else { list.array()? } {
            let category = category.text()?;
            if !LOG_CATEGORIES.contains(&&*category) && !["all", "1", ""].contains(&&*category) {
                return Err(RpcError::parameter(format!("unknown logging category {category}")));
            }
        }
    }
    // Nothing is switched: the setting log_file has all of them, and without it there are none.
    let has_file = !call.env.host.log_path().is_empty();
    json.begin_object();
    for category in LOG_CATEGORIES {
        json.key(category).bool(has_file);
    }
    json.end_object();
    Ok(())
}

fn echo(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    json.begin_array();
    call.params.iter().for_each(|value| json.raw(value.raw().as_bytes()));
    json.end_array();
    Ok(())
}

fn index_info(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let handle = call.env.handle()?;
    let wanted = call.optional_text(0)?;
    let synced = handle.status().phase == Phase::Following;
    let height = handle.view().tip().height;
    json.begin_object();
    for name in ["txindex", "txospenderindex"] {
        if wanted.as_deref().is_none_or(|wanted| wanted.is_empty() || wanted == name) {
            json.key(name).begin_object();
            json.key("synced").bool(synced);
            json.key("best_block_height").number(height);
            json.end_object();
        }
    }
    let name = "basic block filter index";
    if handle.has_filters() && wanted.as_deref().is_none_or(|wanted| wanted.is_empty() || wanted == name) {
        let view = handle.view();
        json.key(name).begin_object();
        json.key("synced").bool(synced && view.has_all_filters());
        json.key("best_block_height").number(view.filter_count().saturating_sub(1));
        json.end_object();
    }
    json.end_object();
    Ok(())
}

fn set_mock_time(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let told = "setmocktime is for regression testing (-regtest mode) only";
    if call.chain_params().network != Network::Regtest {
        return Err(RpcError::misc(told));
    }
    let time_s: i64 = call.integer(0)?;
    let Ok(in_range) = u32::try_from(time_s) else {
        let told = format!("Mocktime must be in the range [0, {}], not {time_s}.", u32::MAX);
        return Err(RpcError::parameter(told));
    };
    if !call.env.host.set_unix_s(in_range.into()) {
        return Err(RpcError::misc(told));
    }
    json.null();
    Ok(())
}

fn mock_scheduler(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    let told = "mockscheduler is for regression testing (-regtest mode) only";
    if call.chain_params().network != Network::Regtest {
        return Err(RpcError::misc(told));
    }
    let seconds: i64 = call.integer(0)?;
    if !(1..=3_600).contains(&seconds) {
        return Err(RpcError::misc("delta_time must be between 1 and 3600 seconds (1 hr)"));
    }
    if !call.env.host.pass_time(Duration::from_secs(seconds.unsigned_abs())) {
        return Err(RpcError::misc(told));
    }
    json.null();
    Ok(())
}

fn settle(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    if let Some(blocks) = call.env.blocks.get() {
        blocks.settle();
    }
    if let Some(mempool) = call.env.mempool.get() {
        mempool.settle();
    }
    json.null();
    Ok(())
}

fn zmq_notifications(call: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    json.begin_array();
    for notifier in call.env.zmq.get().into_iter().flatten() {
        json.begin_object();
        json.key("type").text(&format!("pub{}", notifier.topic.name()));
        json.key("address").text(&notifier.address.to_string());
        json.key("hwm").number(notifier.high_water_mark as u64);
        json.end_object();
    }
    json.end_array();
    Ok(())
}

fn open_rpc(_: &Call<'_>, json: &mut Json<'_>) -> Outcome {
    openrpc::write(json);
    Ok(())
}

const ANY: &str = "Anything.";
const ECHO_TEXT: [Arg; 10] = echoed(Kind::TextOrNumber);
const ECHO_JSON: [Arg; 10] = echoed(Kind::Any);

const fn echoed(kind: Kind) -> [Arg; 10] {
    [
        Arg::optional("arg0", kind, ANY),
        Arg::optional("arg1", kind, ANY),
        Arg::optional("arg2", kind, ANY),
        Arg::optional("arg3", kind, ANY),
        Arg::optional("arg4", kind, ANY),
        Arg::optional("arg5", kind, ANY),
        Arg::optional("arg6", kind, ANY),
        Arg::optional("arg7", kind, ANY),
        Arg::optional("arg8", kind, ANY),
        Arg::optional("arg9", kind, ANY),
    ]
}

/// The methods of this file.
pub const METHODS: &[Method] = &[
    Method {
        name: "help",
        category: "control",
        args: &[Arg::hint("command", Kind::Text, "all commands", "The method to explain.")],
        about: "Lists the methods, or explains one.",
        result: "string",
        run: show_help,
    },
    Method {
        name: "stop",
        category: "control",
        args: &[Arg::optional("wait", Kind::Number, "Milliseconds to wait before the answer, for tests.")],
        about: "Asks the node to end cleanly.",
        result: "string",
        run: stop,
    },
    Method {
        name: "uptime",
        category: "control",
        args: &[],
        about: "Seconds since the node started.",
        result: "number",
        run: uptime,
    },
    Method {
        name: "getrpcinfo",
        category: "control",
        args: &[],
        about: "Calls under way, and where the log is.",
        result: "object: active_commands (objects: method, duration in microseconds), logpath",
        run: rpc_info,
    },
    Method {
        name: "getmemoryinfo",
        category: "control",
        args: &[Arg::default("mode", Kind::Text, "\"stats\"", "stats; mallocinfo is not available.")],
        about: "Memory that is locked against being written to disk. There is none: no wallet holds keys here.",
        result: "object: locked (used, free, total, locked, chunks_used, chunks_free)",
        run: memory_info,
    },
    Method {
        name: "logging",
        category: "control",
        args: &[
            Arg::optional("include", Kind::Array, "Categories to switch on; none exist."),
            Arg::optional("exclude", Kind::Array, "Categories to switch off; none exist."),
        ],
        about: "Categories of the log. There are none: the setting log_level decides what is written.",
        result: "object",
        run: logging,
    },
    Method {
        name: "getopenrpcinfo",
        category: "control",
        args: &[],
        about: "All methods as an OpenRPC document.",
        result: "object: openrpc, info, methods",
        run: open_rpc,
    },
    Method {
        name: "getindexinfo",
        category: "util",
        args: &[Arg::optional("index_name", Kind::Text, "Only this index.")],
        about: "How far the indexes are. They are built with the chain; block filters may be behind it after they were switched on.",
        result: "object of objects: synced, best_block_height",
        run: index_info,
    },
    Method {
        name: "getzmqnotifications",
        category: "zmq",
        args: &[],
        about: "Notifications that are sent over ZeroMQ.",
        result: "array of objects: type, address, hwm",
        run: zmq_notifications,
    },
    Method {
        name: "setmocktime",
        category: HIDDEN,
        args: &[Arg::required("timestamp", Kind::Number, "Seconds since 1970; 0 lets the clock run again.")],
        about: "Sets the clock, on regtest only.",
        result: "null",
        run: set_mock_time,
    },
    Method {
        name: "mockscheduler",
        category: HIDDEN,
        args: &[Arg::required("delta_time", Kind::Number, "Seconds, 3600 at most.")],
        about: "Lets time pass for everything that waits, on regtest only; the clock shows the same as before.",
        result: "null",
        run: mock_scheduler,
    },
    Method {
        name: "syncwithvalidationinterfacequeue",
        category: HIDDEN,
        args: &[],
        about: "Waits until everything that came in before has been dealt with.",
        result: "null",
        run: settle,
    },
    Method {
        name: "echo",
        category: HIDDEN,
        args: &ECHO_TEXT,
        about: "Returns its arguments.",
        result: "array",
        run: echo,
    },
    Method {
        name: "echojson",
        category: HIDDEN,
        args: &ECHO_JSON,
        about: "Returns its arguments; on the command line they are JSON.",
        result: "array",
        run: echo,
    },
];

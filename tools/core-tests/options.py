"""Options of Bitcoin Core, from its command line or its bitcoin.conf.

In:     arguments, or the text of a file.
Out:    `Options`: names and values in order, `-nofoo` as foo=0, sections of the file apart.
Fails:  with Core's "Error: ..." on standard error and exit code 1.
Source: Bitcoin Core, src/common/args.cpp (`InterpretKey`, `InterpretValue`), src/common/config.cpp.
"""

import sys


class Options:
    def __init__(self):
        # (section, name, value) as written.
        self.all = []

    @property
    def pairs(self):
        return [(name, value) for _, name, value in self.all]

    def add(self, section, name, value):
        # "-nofoo" and "-nofoo=1" deny foo.
        if name.startswith("no") and name not in ("nonamed", "nosettings"):
            name, value = name[2:], "0" if value != "0" else "1"
        self.all.append((section, name, value))

    def names(self):
        return {name for _, name, _ in self.all}

    def last(self, wanted):
        values = [value for _, name, value in self.all if name == wanted]
        return values[-1] if values else None

    def chain(self):
        for name, chain in [("regtest", "regtest"), ("signet", "signet"), ("testnet4", "testnet4"), ("testnet", "test")]:
            if any(section == "" and known == name and value != "0" for section, known, value in self.all):
                return chain
        return self.last("chain")

    def of_chain(self, chain):
        return [(name, value) for section, name, value in self.all if section in ("", chain)]


def parse(arguments):
    options = Options()
    for argument in arguments:
        if not argument.startswith("-"):
            fail(f"Error: Command line contains unexpected token '{argument}', see bitcoind -h for a list of options.")
        name, _, value = argument.lstrip("-").partition("=")
        options.add("", name, value if "=" in argument else "1")
    return options


def read_conf(path):
    options = Options()
    section = ""
    for line in path.read_text().splitlines() if path.is_file() else []:
        line = line.split("#")[0].strip()
        if line.startswith("["):
            section = line.strip("[]")
        elif line:
            name, _, value = line.partition("=")
            at, dot, rest = name.strip().partition(".")
            options.add(at if dot else section, rest if dot else name.strip(), value.strip())
    return options


def fail(text):
    print(text if text.startswith("Error") else f"Error: {text}", file=sys.stderr)
    sys.exit(1)

// Bitcoin Core's script interpreter, called without copies.
//
// In:     the bytes of a transaction, the outputs it spends, an input, flags with the values of SCRIPT_VERIFY_*.
// Out:    VerifyScript's verdict: a ScriptError, 0 where it accepts the input; and Core's words for an error.
// Fails:  null where the bytes are not one transaction; no exception leaves this file.
// Source: Core's VerifyScript, from the sources and the library of libbitcoinkernel-sys; nothing of it is changed.
//
// The library's own call (btck_script_pubkey_verify) copies PrecomputedTransactionData, the outputs spent included, for
// every input: n inputs cost n * n copies. Here it is handed over by reference, as Core's validation does.

#include <primitives/transaction.h>
#include <script/interpreter.h>
#include <script/script_error.h>
#include <streams.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Spending {
    CTransaction tx;
    std::vector<CTxOut> spent;
    PrecomputedTransactionData data;

    explicit Spending(SpanReader& reader) : tx{deserialize, TX_WITH_WITNESS, reader} { spent.reserve(tx.vin.size()); }
};

} // namespace

extern "C" {

/** Parses one transaction. */
void* assay_spending_new(const unsigned char* bytes, size_t length) noexcept
{
    try {
        SpanReader reader{std::span<const unsigned char>{bytes, length}};
        Spending* spending = new Spending(reader);
        if (reader.empty()) return spending;
        delete spending;
    } catch (const std::exception&) {
    }
    return nullptr;
}

size_t assay_spending_inputs(const void* spending) noexcept
{
    return static_cast<const Spending*>(spending)->tx.vin.size();
}

/** Appends the output that the next input spends. */
void assay_spending_push(void* spending, int64_t value, const unsigned char* script, size_t length) noexcept
{
    static_cast<Spending*>(spending)->spent.emplace_back(value, CScript(script, script + length));
}

/** Hashes what the inputs share; once, after the output of every input was pushed. */
void assay_spending_ready(void* spending) noexcept
{
    Spending& self = *static_cast<Spending*>(spending);
    self.data.Init(self.tx, std::move(self.spent));
}

/** Judges one input; called from one thread or many. */
int assay_spending_verify(const void* spending, unsigned int input, uint32_t flags) noexcept
{
    const Spending& self = *static_cast<const Spending*>(spending);
    const script_verify_flags rules = script_verify_flags::from_int(flags);
    const CTxIn& in = self.tx.vin[input];
    const CTxOut& out = self.data.m_spent_outputs[input];
    const TransactionSignatureChecker checker{&self.tx, input, out.nValue, self.data, MissingDataBehavior::FAIL};
    ScriptError error = SCRIPT_ERR_UNKNOWN_ERROR;
    const bool good = VerifyScript(in.scriptSig, out.scriptPubKey, &in.scriptWitness, rules, checker, &error);
    return good ? SCRIPT_ERR_OK : error == SCRIPT_ERR_OK ? SCRIPT_ERR_UNKNOWN_ERROR : error;
}

/** Core's words for an error, cut to `room` bytes; returns how many were written. */
size_t assay_script_error_text(int error, unsigned char* out, size_t room) noexcept
{
    try {
        const std::string text = ScriptErrorString(static_cast<ScriptError>(error));
        const size_t length = std::min(text.size(), room);
        std::copy_n(text.begin(), length, out);
        return length;
    } catch (const std::exception&) {
        return 0;
    }
}

void assay_spending_delete(void* spending) noexcept { delete static_cast<Spending*>(spending); }

} // extern "C"

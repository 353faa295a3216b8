//! Packages: children that pay for parents, dust, replacement by two, tests of several.
//!
//! In:     lists of transactions.
//! Out:    Core's reject words and verdicts.
//! Fails:  with the row.

use chain::mempool::{PackageResult, Verdict};
use chain::policy::{FeeRate, PackageReject, Policy};
use primitives::Transaction;

use crate::world::{Draft, World, out, txid};

fn submit(world: &mut World, txs: &[Transaction]) -> PackageResult {
    world.pool.accept_package(txs, world.now_s, None)
}

/// The word of the whole, then those of each transaction; "" where it is good.
fn words(result: &PackageResult) -> Vec<String> {
    let whole = result.reject.as_ref().map_or(String::new(), |reject| reject.reject_word().to_owned());
    let each = result.txs.iter().map(|(_, verdict)| match verdict {
        Verdict::Invalid(rejected) => rejected.reject.reject_word().into_owned(),
        Verdict::Valid(_) => String::new(),
        Verdict::InMempool { .. } => "known".to_owned(),
        Verdict::DifferentWitness { .. } => "other witness".to_owned(),
    });
    std::iter::once(whole).chain(each).collect()
}

#[test]
fn a_child_pays_for_its_parents() {
    let mut world = World::new(Policy::default());
    let [a, b, c] = world.coins(1_000_000);
    let free = Draft::new(&[a], &[1_000_000]).tx();
    let paid = Draft::new(&[b], &[999_000]).tx();
    let child = Draft::new(&[out(&free, 0), out(&paid, 0), c], &[2_990_000]).tx();
    let package = [free.clone(), paid.clone(), child.clone()];
    let tested = world.pool.test_package(&package, world.now_s);
    // A test takes each by its own fee.
    assert_eq!(words(&tested), ["transaction failed", "min relay fee not met"]);
    let result = submit(&mut world, &package);
    assert_eq!(words(&result), ["", "", "", ""]);
    let Verdict::Valid(accepted) = &result.txs[0].1 else { panic!("valid") };
    let size_vb = (free.tx().stripped_length() + child.tx().stripped_length()) as u32;
    assert_eq!((accepted.effective, accepted.effective_with.len()), (FeeRate::of(9_000, size_vb), 2));
    assert_eq!(world.pool.len(), 3);
    assert_eq!(words(&submit(&mut world, &package)), ["", "known", "known", "known"]);
}

#[test]
fn packages_are_sorted_small_and_of_one_family() {
    let mut world = World::new(Policy::default());
    let [a, b] = world.coins(1_000_000);
    let parent = Draft::new(&[a], &[900_000, 90_000]).tx();
    let child = Draft::new(&[out(&parent, 0)], &[890_000]).tx();
    let stranger = Draft::new(&[b], &[890_000]).tx();
    let rival = Draft::new(&[a], &[890_000]).tx();
    let mut check = |txs: &[&Transaction], want: &str| {
        let txs: Vec<Transaction> = txs.iter().map(|tx| (*tx).clone()).collect();
        assert_eq!(words(&submit(&mut world, &txs)), [want]);
    };
    check(&[&child, &parent], "package-not-sorted");
    check(&[&parent, &parent], "package-contains-duplicates");
    check(&[&parent, &rival], "conflict-in-package");
    check(&[&stranger, &child], "package-not-child-with-parents");
    check(&[&stranger; 26], "package-too-many-transactions");
    assert!(world.pool.is_empty());
    let fat = |coin| Draft::new(&[coin], &[500_000]).padded(50_100).tx();
    let (x, y) = (fat(a), fat(b));
    let result = world.pool.test_package(&[x.clone(), y.clone()], world.now_s);
    assert_eq!(words(&result), ["", "", ""]);
    let larger = |coin| Draft::new(&[coin], &[500_000]).padded(50_600).tx();
    let result = world.pool.test_package(&[larger(a), larger(b)], world.now_s);
    assert_eq!(result.reject, Some(PackageReject::TooLarge));
}

#[test]
fn dust_needs_its_child_in_the_package() {
    let mut world = World::new(Policy::default());
    let [a] = world.coins(1_000_000);
    let parent = Draft::new(&[a], &[1_000_000, 0]).version(3).tx();
    let careless = Draft::new(&[out(&parent, 0)], &[990_000]).version(3).tx();
    let careful = Draft::new(&[out(&parent, 0), out(&parent, 1)], &[990_000]).version(3).tx();
    let result = submit(&mut world, &[parent.clone(), careless]);
    assert_eq!(words(&result), ["unspent-dust", "min relay fee not met", "missing-ephemeral-spends"]);
    assert_eq!(words(&submit(&mut world, &[parent.clone(), careful.clone()])), ["", "", ""]);
    // A child that leaves the dust behind cannot take its place.
    let careless = Draft::new(&[out(&parent, 0)], &[900_000]).version(3).tx();
    assert_eq!(world.word(&careless), "missing-ephemeral-spends");
    assert!(world.has(&careful));
}

#[test]
fn two_take_the_place_of_one_that_pays_less_together() {
    let mut world = World::new(Policy::default());
    let [a, b] = world.coins(1_000_000);
    let old = Draft::new(&[a], &[990_000]).tx();
    world.must(&old);
    let parent = Draft::new(&[a], &[999_990]).tx();
    let poor = Draft::new(&[out(&parent, 0), b], &[1_989_995]).tx();
    let result = submit(&mut world, &[parent.clone(), poor]);
    assert_eq!(result.reject, Some(PackageReject::Replacement("package RBF failed: insufficient anti-DoS fees")));
    assert!(world.has(&old));
    let rich = Draft::new(&[out(&parent, 0), b], &[1_950_000]).tx();
    let result = submit(&mut world, &[parent.clone(), rich.clone()]);
    assert_eq!(words(&result), ["", "", ""]);
    let Verdict::Valid(accepted) = &result.txs[0].1 else { panic!("valid") };
    assert_eq!(accepted.replaced[0].txid, txid(&old));
    assert_eq!((world.pool.len(), world.has(&parent), world.has(&rich)), (2, true, true));
}

#[test]
fn a_package_is_not_taken_apart_by_another_witness() {
    let mut world = World::new(Policy::default());
    let [a] = world.coins(1_000_000);
    let parent = Draft::new(&[a], &[990_000]).tx();
    world.must(&parent);
    let mut twin = Draft::new(&[a], &[990_000]);
    twin.inputs[0].3 = vec![vec![1]];
    let twin = twin.tx();
    assert_eq!(world.word(&twin), "txn-same-nonwitness-data-in-mempool");
    let child = Draft::new(&[out(&parent, 0)], &[980_000]).tx();
    assert_eq!(words(&submit(&mut world, &[twin, child])), ["", "other witness", ""]);
}

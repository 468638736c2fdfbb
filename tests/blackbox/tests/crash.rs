//! Daemons that are killed.

use agarose_blackbox::torture::campaign;

#[test]
fn killed_at_random_moments_nothing_acknowledged_is_lost_doubled_or_out_of_order() {
    let seed = std::process::id().into();
    let tally = campaign(seed, 15);
    eprintln!("seed {seed}: {tally:?}");
    assert_eq!(tally.kills, 15);
    assert!(tally.acknowledged > 0);
}

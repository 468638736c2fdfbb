//! A long campaign of killed daemons: `cargo run -p agarose-blackbox --bin torture -- ROUNDS [SEED]`.

#![expect(clippy::print_stdout, reason = "a tool that prints its counts")]

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(200);
    let seed = arguments.next().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |since| since.as_secs())
    });
    println!("seed {seed}, {rounds} rounds");
    println!("{:#?}", agarose_blackbox::torture::campaign(seed, rounds));
}

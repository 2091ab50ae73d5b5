//! Moves between servers, each on a machine of its own, counted on their links: everything that must move, and nothing
//! else.

use ropeway_tests::cluster::Cluster;

/// Bytes where something moves.
const SIZE: u64 = 4 << 20;

/// The bytes that one part of the program moves.
struct Moves {
    name: &'static str,
    /// To each server from others, and from each to others.
    to: [u64; 3],
    from: Option<[u64; 3]>,
    /// To the client, and from it.
    client: (u64, u64),
}

/// Between servers: what each gets, and what each gives.
fn between(name: &'static str, to: [u64; 3], from: [u64; 3]) -> Moves {
    Moves { name, to, from: Some(from), client: (0, 0) }
}

/// Nothing at all.
fn nothing(name: &'static str) -> Moves {
    between(name, [0; 3], [0; 3])
}

/// The bytes that servers get from any of those that have them.
fn anyhow(name: &'static str, to: [u64; 3]) -> Moves {
    Moves { name, to, from: None, client: (0, 0) }
}

impl Moves {
    /// The client gets so much of it.
    fn client_gets(self, bytes: u64) -> Self {
        Self { client: (bytes, 0), ..self }
    }

    /// The client gives so much of it.
    fn client_gives(self, bytes: u64) -> Self {
        Self { client: (0, bytes), ..self }
    }
}

#[test]
fn exactly_what_is_needed_moves_and_goes_straight() {
    const HALF: u64 = SIZE / 2;
    const QUARTER: u64 = SIZE / 4;
    const CONTENT: u64 = SIZE / 16;
    const ROWS: u64 = 16 * 1024;
    let Some(cluster) = Cluster::start() else { return };
    let (stages, outcome) = cluster.stages(cluster.program("moves", &[&SIZE.to_string()]));
    assert_eq!(outcome.stdout, "what moved is right\n", "{}", outcome.stderr);
    let expected = [
        nothing("written"),
        between("migrated", [0, SIZE, 0], [SIZE, 0, 0]),
        nothing("migrated again"),
        nothing("used there"),
        nothing("migrated to the host"),
        nothing("undefined and written"),
        anyhow("read by the others", [SIZE, SIZE, 0]),
        nothing("read again by all"),
        // The first has it already, and takes it from the others, which then need it.
        between("taken to be written by each", [0, SIZE, SIZE], [SIZE, SIZE, 0]),
        between("first contents", [SIZE, 0, 0], [0; 3]).client_gives(SIZE),
        anyhow("read-only for the others", [0, SIZE, SIZE]),
        nothing("read-only again for all"),
        nothing("halves written at once"),
        between("both halves read by the third", [0, 0, SIZE], [HALF, HALF, 0]),
        between("one half written and read by the third", [0, 0, HALF], [HALF, 0, 0]),
        between("little of much", [0, 4096, 0], [4096, 0, 0]),
        nothing("half replaced by a fill"),
        between("the other half read there", [0, HALF, 0], [HALF, 0, 0]),
        between("replaced by the program", [0, 0, SIZE], [0; 3]).client_gives(SIZE),
        between("read through another queue", [SIZE, 0, 0], [SIZE, 0, SIZE]).client_gets(SIZE),
        anyhow("a quarter copied", [0, QUARTER, 0]),
        nothing("the copy read where it is"),
        anyhow("a rectangle copied", [0, ROWS, 0]),
        nothing("mapped to be replaced"),
        between("unmapped", [0, HALF, 0], [0; 3]).client_gives(HALF),
        nothing("mapped as it was written"),
        between("mapped to be read", [0, 0, QUARTER], [0, QUARTER, QUARTER]).client_gets(QUARTER),
        nothing("unmapped unchanged"),
        nothing("held up by a user event"),
        between("let go", [0, HALF, 0], [HALF, 0, 0]),
        anyhow("a picture seen by all", [0, SIZE, SIZE]),
        nothing("a picture seen again by all"),
        between("contents migrated", [0, CONTENT, 0], [CONTENT, 0, 0]),
        nothing("contents changed there"),
        between("contents changed elsewhere", [0, 0, CONTENT], [0, CONTENT, 0]),
        between("contents read", [0; 3], [0, 0, CONTENT]).client_gets(CONTENT),
        // Each server gets the source, once.
        between("a program built", [SIZE / 16; 3], [0; 3]).client_gives(3 * SIZE / 16),
        nothing("the same built again"),
    ];
    let (one_alone, stages) = stages.split_last().expect("there are many");
    let names: Vec<_> = stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, expected.each_ref().map(|moves| moves.name));
    for (stage, moves) in stages.iter().zip(&expected) {
        // The bytes of messages and packets: few where little moves.
        let framing = if stage.client().max(stage.between()) > 100_000 { 150_000 } else { 6_000 };
        for server in 0..3 {
            stage.expect_to(server, moves.to[server], framing);
            if let Some(from) = moves.from {
                stage.expect_from(server, from[server], framing);
            }
        }
        stage.expect_to_client(moves.client.0, framing);
        stage.expect_from_client(moves.client.1, framing);
    }
    // Objects that only one device uses are made nowhere else.
    assert_eq!(one_alone.name, "a hundred objects for one device");
    one_alone.expect_to(1, 100 * 4096, 100_000);
    let others = one_alone.server(0).bytes() + one_alone.server(2).bytes();
    assert!(others < 3000, "{one_alone:?}");
}

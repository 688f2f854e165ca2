"""Each rule finds what it forbids: `python3 -m unittest discover -s scripts/tidy`, part of `make lint`."""

import pathlib
import tempfile
import unittest

import assertions
import built_paths
import events
import layers
import links
import proofs
import words


class Links(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "a.md").write_text("# One thing\n## Two, `things`\n")

    def test_a_link_leads_to_a_file_and_a_heading(self):
        text = "[a](a.md) [a](a.md#one-thing) [a](a.md#two-things) [out](https://example.org/gone.md)"
        self.assertEqual(list(links.dead_links(self.root, "b.md", text)), [])

    def test_links_to_nothing_are_found(self):
        found = list(links.dead_links(self.root, "b.md", "[a](c.md) and [a](a.md#three)"))
        self.assertEqual(len(found), 2, found)

    def test_quoted_paths_of_the_repository_exist(self):
        (self.root / "docs").mkdir()
        quoted = "`docs/` `docs/gone.md` `crates/gone` `not/a/path.md` `crates/NAME/src`"
        found = list(links.dead_paths(self.root, "b.md", quoted))
        self.assertEqual(found, ["b.md: there is no docs/gone.md", "b.md: there is no crates/gone"])

    def test_code_blocks_are_not_read(self):
        self.assertEqual(links.without_code_blocks("a\n```\n[a](c.md)\n```\nb"), "a\n\nb")


class Assertions(unittest.TestCase):
    def test_items_of_tests_are_not_counted(self):
        source = ["assert!(a);", "#[cfg(test)]", "mod tests {", "    assert!(b);", "}", "#[cfg(test)]", "use c;", "d();"]
        self.assertEqual(assertions.without_tests(source), ["assert!(a);", "d();"])

    def test_all_kinds_count(self):
        text = "debug_assert_eq!(a, b); assert!(c); paranoid!(d); unreachable!(); expect(e); assert_reached(f)"
        self.assertEqual(len(assertions.ASSERTION.findall(text)), 4)


class Layers(unittest.TestCase):
    def test_downwards_is_allowed(self):
        self.assertEqual(list(layers.upwards("store", {"dependencies": {"arbor-txn": {}, "libc": {}}})), [])

    def test_upwards_and_sideways_are_not(self):
        manifest = {"dependencies": {"arbor-query": {}}, "target": {"cfg(unix)": {"dependencies": {"arbor-session": {}}}}}
        self.assertEqual(len(list(layers.upwards("store", manifest))), 2)

    def test_a_new_crate_needs_a_layer(self):
        self.assertEqual(len(list(layers.upwards("no_such_crate", {}))), 1)

    def test_sockets(self):
        self.assertEqual(len(list(layers.sockets("crates/query/src/a.rs", "use std::net::TcpStream;"))), 1)
        self.assertEqual(list(layers.sockets("crates/query/src/a.rs", "// std::net is for others")), [])
        self.assertEqual(list(layers.sockets("crates/server/src/a.rs", "use std::net::TcpStream;")), [])


class Others(unittest.TestCase):
    def test_a_path_of_the_checkout_that_built(self):
        self.assertTrue(built_paths.BUILT_IN.search('Path::new(env!("CARGO_MANIFEST_DIR"))'))
        self.assertFalse(built_paths.BUILT_IN.search('std::env::var_os("CARGO_MANIFEST_DIR")'))

    def test_an_event_outside_of_the_table(self):
        self.assertTrue(events.DEFINED.search("const A: Event =\n    Event { component: Component::Index, id: 1 }"))
        self.assertFalse(events.DEFINED.search("Event { t_s, end_s }"))

    def test_a_row_without_proof(self):
        rows = "| a | b | test |\n|---|---|---|\n| x | y | `testing/clients/test_a.py` |\n| z | y | by hand |\n\n| a | b |\n|---|---|\n| u | v |\n"
        self.assertEqual(list(proofs.without_proof(rows)), ["COMPAT.md:4: names no test: z"])

    def test_words_are_found_in_names_too(self):
        self.assertEqual(words.count("folders?", "a folder, data_folder, DataFolders, FOLDER, holder, folderol"), 3)
        self.assertEqual(words.count("told|tells?", "told tells tell retell foretold"), 3)
        self.assertEqual(words.count("//[/!] What", "/// What it is\n// What it is not"), 1)


if __name__ == "__main__":
    unittest.main()

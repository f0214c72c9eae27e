package handbooktest

import (
	"reflect"
	"testing"
)

func TestBlocks(t *testing.T) {
	t.Parallel()
	const text = "# Title\n\n```console\n$ ingot push 'a b' --var x=1 \\\n    -f m.yml # no\noutput\n" +
		"$ curl x | cf auth a \"$(ingot token -q)\" >/dev/null && X=1 ./ingot up 2>log\n```\n\n" +
		"## The `b`\n\n```\nno command\n```\n\n" +
		"1. x\n   ```sh\n   cat > f <<'E'\n   cf no\n   E\n   cf apps\n   ```\n"
	blocks := blocksOf("docs/a.md", text)
	var names []string
	var commands [][]string
	for _, b := range blocks {
		names = append(names, b.Name())
		commands = append(commands, b.Commands()...)
	}
	if want := []string{"docs/a.md#title/1", "docs/a.md#the-b/1"}; !reflect.DeepEqual(names, want) {
		t.Errorf("the blocks are %q, want %q", names, want)
	}
	want := [][]string{{"ingot", "push", "a b", "--var", "x=1", "-f", "m.yml"}, {"ingot", "token", "-q"},
		{"cf", "auth", "a", "VALUE"}, {"ingot", "up"}, {"cf", "apps"}}
	if !reflect.DeepEqual(commands, want) {
		t.Errorf("the commands are %q, want %q", commands, want)
	}
}

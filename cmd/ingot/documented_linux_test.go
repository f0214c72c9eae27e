package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/handbook/handbooktest"
	"ingot/internal/cli/core"
)

// refused says what the program does not know in the words of a call of one of its own commands.
func refused(all []core.Other, words []string) string {
	i := slices.IndexFunc(all, func(o core.Other) bool { return o.Name == words[0] })
	if i < 0 {
		return "the command " + words[0]
	}
	if len(words) > 1 && len(all[i].Sub) > 0 && !strings.HasPrefix(words[1], "-") &&
		slices.ContainsFunc(all[i].Sub, func(o core.Other) bool { return o.Name == words[1] }) {
		return refused(all[i].Sub, words[1:])
	}
	for _, word := range words[1:] {
		flag, _, _ := strings.Cut(word, "=")
		if strings.HasPrefix(flag, "--") && !slices.Contains(all[i].Flags, flag) {
			return "the flag " + flag
		}
	}
	return ""
}

// TestDocumentedServerCommands checks every call of the program's own commands in the documents; those of the
// client are checked in internal/cli.
func TestDocumentedServerCommands(t *testing.T) {
	t.Parallel()
	own, found := others(), 0
	for _, b := range handbooktest.Blocks(t, filepath.Join("..", "..")) {
		for _, words := range b.Commands() {
			p := &process{args: words[1:]}
			if words[0] != "ingot" || p.forClient() {
				continue
			}
			found++
			if what := refused(own, words[1:]); what != "" && !strings.HasPrefix(words[1], "-") {
				t.Errorf("%s has %q, and the program does not know %s. Correct the document", b.Name(),
					strings.Join(words, " "), what)
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d calls were found", found)
	}
	for _, wrong := range []string{"up --no-such-flag", "nothing", "backup list --no-such-flag"} {
		if refused(own, strings.Fields(wrong)) == "" {
			t.Errorf("%s is accepted", wrong)
		}
	}
}

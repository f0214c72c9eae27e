package initproto

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEarlierVersions reads what an ingot-init of every version of the protocol wrote:
// instances outlive servers. A new Version needs its own testdata/vN, from an instance that
// ended.
func TestEarlierVersions(t *testing.T) {
	t.Parallel()
	for version := 1; version <= Version; version++ {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join("testdata", fmt.Sprint("v", version))
			spec, err := ReadSpec(dir)
			if err != nil || len(spec.Members) != 2 || spec.Members[0].Source != "APP/PROC/WEB" {
				t.Errorf("the spec is %+v, %v, want two members", spec, err)
			}
			state, err := readState(dir)
			if err != nil || state.Phase != Ended || state.Exit == nil || state.Exit.Status != 3 || len(state.Members) != 2 ||
				!state.Members[1].Exited {
				t.Errorf("the state is %+v, %v, want an exit with 3 of two members", state, err)
			}
			r, err := OpenReader(filepath.Join(dir, RecordsDir), 0)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var all []string
			for {
				one, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if one.Seq != uint64(len(all)+1) {
					t.Errorf("record %d has the number %d", len(all)+1, one.Seq)
				}
				all = append(all, fmt.Sprintf("%c %d %s", one.Kind, one.Member, one.Payload))
			}
			got := strings.Join(all, "\n")
			for _, want := range []string{`v 0 {"event":"started"}`, `v 0 {"event":"healthy"`, `v 0 {"event":"ready"}`,
				"o 0 one\n", "e 0 two\n", "o 0 three\n", `v 0 {"event":"ended","status":3`} {
				if !strings.Contains(got, want) {
					t.Errorf("the records are\n%s\nwant %s", got, want)
				}
			}
		})
	}
}

// TestLaterVersion: a spec of a later server is refused with what to do.
func TestLaterVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := fmt.Sprintf(`{"protocol":%d,"members":[{"name":"web","args":["x"]}]}`, Version+1)
	if err := os.WriteFile(filepath.Join(dir, SpecFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSpec(dir); err == nil ||
		!strings.Contains(err.Error(), "it is older than the server; install both from one release") {
		t.Errorf("got %v, want a refusal", err)
	}
}

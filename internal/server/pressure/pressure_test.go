package pressure

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

const figures = "some avg10=0.37 avg60=12.52 avg300=0.26 total=73582185\nfull avg10=0.11 avg60=6.50 avg300=0.01 " +
	"total=31542686\n"

// TestRead reads the kernel's files. One that is missing, or of a kernel without figures, has none.
func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if all := read(dir); len(all) > 0 {
		t.Errorf("%v without files", all)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "memory"), []byte(figures), 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "io"), []byte("some avg10=what\n"), 0o600))
	all := read(dir)
	if len(all) != 1 || all[0].Some != 12.52 || all[0].Full != 6.5 || all[0].total["some"] != 73.582185 ||
		all[0].total["full"] != 31.542686 || !all[0].Short {
		t.Errorf("%+v", all)
	}
}

// TestMachine reads those of this machine, if its kernel has any.
func TestMachine(t *testing.T) {
	t.Parallel()
	if _, err := os.ReadFile("/proc/pressure/memory"); err != nil {
		t.Skip("this kernel does not measure pressure: ", err)
	}
	all := Machine()
	if len(all) != 3 || all[0].Resource != "memory" || len(all[0].total) != 2 {
		t.Errorf("%+v", all)
	}
}

// TestWarnings: the log says once that memory is short, and once that it is not any more.
func TestWarnings(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var full float64
	check := watch(slog.New(slog.NewTextHandler(&out, nil)), func() []Stall {
		return []Stall{{Resource: "memory", Full: full, Short: full >= short}, {Resource: "io", Full: 99}}
	})
	for _, step := range []struct {
		full float64
		want string // in the log, or nothing
	}{
		{4.9, ""}, {5, "short of memory"}, {80, ""}, {2, ""}, {0.9, "enough memory again"}, {0, ""}, {6, "short of memory"},
	} {
		out.Reset()
		full = step.full
		check(t.Context())
		if got := out.String(); step.want == "" && got != "" || !strings.Contains(got, step.want) {
			t.Errorf("at %v %%: %q, want %q", step.full, got, step.want)
		}
	}
}

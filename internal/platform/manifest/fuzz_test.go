package manifest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform/manifest"
)

// bombs are small manifests that become large when their aliases are followed.
var bombs = map[string]string{
	"nested lists": "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c " +
		"[*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n" +
		"e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\napplications: [{name: a, env: {X: *f}}]",
	"a long text": "t: &t " + strings.Repeat("x", 500_000) + "\napplications: [{name: a, env: {X: [" +
		strings.TrimSuffix(strings.Repeat("*t,", 100_000), ",") + "]}}]",
	"a text of some length": "t: &t " + strings.Repeat("x", 9_000) + "\napplications: [{name: a, env: {X: [" +
		strings.TrimSuffix(strings.Repeat("*t,", 900), ",") + "]}}]",
	"merges": "a: &a {x: &t " + strings.Repeat("x", 100_000) + "}\napplications: [" +
		strings.TrimSuffix(strings.Repeat("{<<: *a, name: a},", 40_000), ",") + "]",
	"deep":   "applications: " + strings.Repeat("[", 400_000),
	"itself": "applications: &a [*a]",
}

func TestAliasBombs(t *testing.T) {
	t.Parallel()
	for name, text := range bombs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			_, err := manifest.Parse([]byte(text))
			if !fault.Is(err, fault.Unprocessable) && !fault.Is(err, fault.MessageParse) {
				t.Errorf("got %.200v", err)
			}
			// Generous: it takes milliseconds, and hours without a bound.
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A manifest is refused with words for its author, or has a bounded size.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		head, _, _ := strings.Cut(string(text), "=== ")
		f.Add([]byte(head))
	}
	for _, text := range bombs {
		if len(text) < 2000 { // the mutator is slow with long ones
			f.Add([]byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		began := time.Now()
		m, err := manifest.Parse(text)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%d bytes took %v", len(text), took)
		}
		if err != nil {
			var e *fault.Error
			if !errors.As(err, &e) || e.Code == fault.Internal || e.Message == "" {
				t.Errorf("the author is told nothing: %v", err)
			}
			return
		}
		size := 0
		for _, app := range m.Apps {
			if app.Name == "" {
				t.Error("an app has no name")
			}
			for k, v := range app.Env {
				size += len(k) + len(v)
			}
			for _, s := range app.Sidecars {
				size += len(s.Name) + len(s.Command)
			}
		}
		if size > 32*manifest.MaxBytes {
			t.Errorf("%d bytes became %d", len(text), size)
		}
	})
}

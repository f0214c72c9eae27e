package push

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"ingot/internal/cli/bits"
	"ingot/internal/cli/watch"
)

// A change that is reported while a version starts, and comes too late to give that version up, is
// not forgotten: no second report would come.
func TestChangeDuringStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := &watching{plan: plan{path: dir}, folders: watch.New(watch.DefaultQuiet, watch.DefaultPoll)}
	defer w.folders.Close()
	var err error
	if w.seen, err = bits.Rescan(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	w.folders.Set([]string{dir})
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	w.lookForNewer(ctx, cancel)
	if !w.told || !errors.Is(context.Cause(ctx), errNewer) {
		t.Errorf("told %v, canceled by %v, want both", w.told, context.Cause(ctx))
	}
}

package archive

import (
	"os"
	"testing"
	"time"
)

// TestSettle sees that a program counts as written once no process has it open for
// writing.
func TestSettle(t *testing.T) {
	t.Parallel()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f, err := root.OpenFile("program", os.O_WRONLY|os.O_CREATE, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	settled := make(chan error, 1)
	go func() { settled <- settle(root, "program") }()
	select {
	case err := <-settled:
		t.Fatalf("it is settled while it is open (%v)", err)
	case <-time.After(20 * time.Millisecond): // it cannot be, however long this is
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-settled; err != nil {
		t.Error(err)
	}
	if err := settle(root, "program"); err != nil {
		t.Errorf("again: %v", err)
	}
	if f, err := root.OpenFile("program", os.O_WRONLY, 0); err != nil {
		t.Errorf("it cannot be opened any more: %v", err)
	} else {
		f.Close()
	}
}

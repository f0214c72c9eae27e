//go:build linux

package container_test

import (
	"fmt"
	"os"
	"testing"
)

// rounds are those of a soak test, which one after the other has the machine.
func rounds(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if os.Getenv("INGOT_SOAK") != "1" {
		t.Skip("INGOT_SOAK is not set")
	}
	for i := range 20 {
		t.Run(fmt.Sprint("round ", i), f)
	}
}

// TestSoakEscape goes through the table of TestEscape again and again, each time
// with an engine and instances of their own.
func TestSoakEscape(t *testing.T) {
	t.Parallel()
	rounds(t, escape)
}

// TestSoakReach goes through the matrix of TestReach again and again: the
// addresses of instances that are gone are given to others.
func TestSoakReach(t *testing.T) {
	t.Parallel()
	rounds(t, reach)
}

package system

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"ingot/internal/base/testkit"
)

// TestMain sees that nothing of a stopped server goes on running. The caches
// of token verifiers have a cleaner that ends when the cache is collected.
func TestMain(m *testing.M) {
	os.Exit(testkit.WithPrograms(func() int {
		status := m.Run()
		if status == 0 {
			if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/maypok86/otter/v2.periodicCleanUp[...]")); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		return status
	}))
}

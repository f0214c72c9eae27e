package system

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain sees that nothing of a stopped server goes on running. The caches
// of token verifiers have a cleaner that ends when the cache is collected.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/maypok86/otter/v2.periodicCleanUp[...]"))
}

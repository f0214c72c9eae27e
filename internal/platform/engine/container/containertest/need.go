package containertest

import (
	"os"
	"testing"
)

// Missing ends a test that needs containers where they cannot run. The test is skipped,
// unless INGOT_REQUIRE_CONTAINERS is set: otherwise a machine that lost them would pass all
// tests by running none.
func Missing(t testing.TB, why any) {
	t.Helper()
	if os.Getenv("INGOT_REQUIRE_CONTAINERS") == "1" {
		t.Fatalf("containers do not work here, and INGOT_REQUIRE_CONTAINERS is set: %v", why)
	}
	t.Skipf("containers do not work here: %v", why)
}

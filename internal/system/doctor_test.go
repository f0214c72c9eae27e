//go:build linux

package system

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/engine/kubernetes/kubetest"
	"ingot/internal/platform/storage/blob/s3/s3test"
)

// TestCheckCluster checks the database and the bucket of a cluster; the steps of the
// cluster itself are tested with the engine.
func TestCheckCluster(t *testing.T) {
	t.Parallel()
	bucket := s3test.New(t)
	c := testConfig(t)
	c.DatabaseURL, c.BlobURL = dbtest.URL(t, db.Postgres), bucket.BlobURL()
	check := func(c Config) string {
		var said strings.Builder
		CheckCluster(t.Context(), c, func(f kubernetes.Finding) {
			fmt.Fprintf(&said, "%s %s: %s: %s\n", f.Level, f.Step,
				f.Found, f.Do)
		})
		return said.String()
	}
	expect := func(got string, want ...string) {
		t.Helper()
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("said\n%s, want %q", got, text)
			}
		}
	}
	expect(check(c), " database: PostgreSQL, ", "ok bucket: ", "fail --kubernetes-image")

	cluster := kubetest.New(t, testkit.Programs(t)+"/ingot-init")
	c.Kubernetes.Image, c.Kubernetes.Kubeconfig = "stack:test", cluster.Kubeconfig(t)
	c.seams.diagnosis = func(d *kubernetes.Diagnosis) { d.Home, d.Settle = cluster.Home, time.Second }
	expect(check(c), "ok trial Pod", "warn NetworkPolicies: NOT enforced")

	bucket.Fail(s3test.Away)
	c.DatabaseURL = "postgres://nobody@127.0.0.1:1/none?connect_timeout=1"
	c.Kubernetes.Image = ""
	expect(check(c), "fail database: ", "check --database-url", "fail bucket: ", "see docs/blobs.md")
	c.DatabaseURL, c.BlobURL = "", ""
	expect(check(c), "fail database: none", "fail bucket: none")
}

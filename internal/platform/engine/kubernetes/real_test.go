//go:build linux

package kubernetes_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/enginetest"
	"ingot/internal/platform/engine/kubernetes"
)

// TestRealCluster runs the suite on the cluster of INGOT_TEST_KUBECONFIG, whose nodes are
// this machine and have the image INGOT_TEST_STACK_IMAGE.
func TestRealCluster(t *testing.T) {
	t.Parallel()
	config := kubernetes.DefaultConfig()
	config.Kubeconfig, config.Image = os.Getenv("INGOT_TEST_KUBECONFIG"), os.Getenv("INGOT_TEST_STACK_IMAGE")
	config.PlaceTimeout = 10 * time.Second
	if config.Kubeconfig == "" || config.Image == "" {
		t.Skip("no cluster: make test-kubernetes starts one")
	}
	var tried atomic.Bool
	authority, err := agent.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	newEngine := func(t *testing.T, dir string) engine.Engine {
		t.Helper()
		config := config
		if tried.Swap(true) { // once is enough where it takes half a minute
			config.UserNamespaces = kubernetes.UserNamespacesOff
		}
		e, err := kubernetes.Open(context.Background(), kubernetes.Options{
			Config: config, Authority: authority, Key: []byte(filepath.Base(dir)), Server: "test",
		})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	enginetest.Run(t, newEngine, enginetest.Options{User: 2000, Group: 2000, KillInit: killOnNode,
		OpenNetwork: true, Many: 10})
}

// killOnNode kills ingot-init of an instance on a node that is this machine.
func killOnNode(t *testing.T, _ string, _ engine.Engine, id string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		environ, _ := os.ReadFile("/proc/" + entry.Name() + "/environ") // it may have ended
		if bytes.Contains(environ, []byte("INGOT_INSTANCE="+id+"\x00")) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Fatalf("no process of instance %s", id)
}

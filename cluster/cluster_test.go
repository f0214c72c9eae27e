//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// inCluster skips a test that does not run with a cluster.
func inCluster(t *testing.T) {
	t.Helper()
	if os.Getenv(configVariable) == "" {
		t.Skip(configVariable + " is not set: make test-kubernetes sets it")
	}
}

// patience is the timeout of every wait.
const patience = 2 * time.Minute

// kubectl runs kubectl and returns its output.
func kubectl(t *testing.T, input string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Stdin = strings.NewReader(input)
	var messages bytes.Buffer
	cmd.Stderr = &messages
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, messages.String())
	}
	return out
}

// pod describes a Pod on a node, as restricted as those of apps, that runs a script.
func pod(namespace, name, node, script string) string {
	text, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name, "namespace": namespace},
		"spec": object{
			"nodeName": node, "restartPolicy": "Never", "automountServiceAccountToken": false,
			"terminationGracePeriodSeconds": 1,
			"securityContext": object{"runAsNonRoot": true, "runAsUser": 2000, "runAsGroup": 2000,
				"seccompProfile": object{"type": "RuntimeDefault"}},
			"containers": []object{{
				"name": "app", "image": os.Getenv(imageVariable), "imagePullPolicy": "IfNotPresent",
				"command": []string{"/bin/bash", "-c", script},
				"securityContext": object{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
					"capabilities": object{"drop": []string{"ALL"}}},
				"resources": object{"requests": object{"cpu": "10m", "memory": "32Mi"}, "limits": object{"memory": "64Mi"}},
			}},
		},
	})
	if err != nil {
		panic(err) // plain values
	}
	return string(text)
}

// serve answers every connection to a port with the user's id. Debian's base has
// perl.
const serveScript = `exec perl -MIO::Socket::INET -e '
$l = IO::Socket::INET->new(Listen => 5, LocalPort => 8080, ReuseAddr => 1) or die $!;
while ($c = $l->accept) { print $c "uid $<\n"; close $c }'`

// TestNodes runs a Pod with the image of app instances on every node. This machine
// reaches each by its address, and so do the Pods of the other node.
func TestNodes(t *testing.T) {
	t.Parallel()
	inCluster(t)
	var nodes corev1.NodeList
	if err := json.Unmarshal(kubectl(t, "", "get", "nodes", "-o", "json"), &nodes); err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != 2 {
		t.Fatalf("%d nodes, want 2", len(nodes.Items))
	}
	const namespace = "test-nodes"
	kubectl(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}`, namespace), "create", "-f", "-")
	t.Cleanup(func() { kubectl(t, "", "delete", "namespace", namespace) })
	var addresses []string
	for i, node := range nodes.Items {
		if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			t.Errorf("node %s is not ready: %+v", node.Name, node.Status.Conditions)
		}
		name := fmt.Sprintf("pod-%d", i)
		began := time.Now()
		kubectl(t, pod(namespace, name, node.Name, serveScript), "create", "-f", "-")
		kubectl(t, "", "wait", "-n", namespace, "pod/"+name, "--for=condition=Ready", "--timeout=90s")
		t.Logf("Pod on %s ready after %v", node.Name, time.Since(began).Round(time.Millisecond))
		address := string(kubectl(t, "", "get", "-n", namespace, "pod/"+name, "-o", "jsonpath={.status.podIP}"))
		addresses = append(addresses, address)
		if got := hello(t, address+":8080"); got != "uid 2000\n" {
			t.Errorf("the Pod on %s answered %q, want uid 2000", node.Name, got)
		}
	}
	for i, to := range []string{addresses[1], addresses[0]} {
		got := kubectl(t, "", "exec", "-n", namespace, fmt.Sprintf("pod-%d", i), "--", "bash", "-c",
			"cat </dev/tcp/"+to+"/8080")
		if string(got) != "uid 2000\n" {
			t.Errorf("from Pod %d, the other node's Pod answered %q, want uid 2000", i, got)
		}
	}
}

// hello returns what a server writes, once it accepts connections.
func hello(t *testing.T, address string) string {
	t.Helper()
	var text []byte
	if !eventually(patience, func() bool {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return false
		}
		defer c.Close()
		text, err = io.ReadAll(c)
		return err == nil
	}) {
		t.Fatalf("%s does not answer", address)
	}
	return string(text)
}

// TestStores reads from the servers beside the cluster, as a Pod would.
func TestStores(t *testing.T) {
	t.Parallel()
	inCluster(t)
	for _, variable := range []string{podURLVariable, s3Variable, "INGOT_TEST_S3_CA"} {
		if os.Getenv(variable) == "" {
			t.Errorf("%s is not set", variable)
		}
	}
}

// TestPid checks that a process is identified by more than its number.
func TestPid(t *testing.T) {
	t.Parallel()
	self := pidOf("test", os.Getpid())
	if !self.alive() {
		t.Error("this process is not alive")
	}
	other := self
	other.Started = "1"
	if other.alive() {
		t.Error("a process with the same number and another start is alive")
	}
	if err := other.terminate(time.Second); err != nil {
		t.Errorf("terminate of a process that does not exist: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := pidOf("sleep", cmd.Process.Pid)
	go func() { _ = cmd.Wait() }()
	if err := child.terminate(10 * time.Second); err != nil || child.alive() {
		t.Errorf("terminate: %v, alive %t, want neither", err, child.alive())
	}
}

// TestState reads what was written.
func TestState(t *testing.T) {
	t.Parallel()
	want := state{Dir: t.TempDir(), Supervisor: pidOf("test", os.Getpid()), Processes: []pid{{"etcd", 1, "2"}},
		Bridges: []string{"b"}, Settings: map[string]string{"vm/x": "1"}}
	if err := want.save(); err != nil {
		t.Fatal(err)
	}
	got, err := readState(want.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if got.Supervisor != want.Supervisor || !slices.Equal(got.Processes, want.Processes) || got.Settings["vm/x"] != "1" {
		t.Errorf("state %+v, want %+v", got, want)
	}
}

// TestPauseImage checks the archive that nodes import.
func TestPauseImage(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pause.tar")
	if err := writePause(file, os.Args[0]); err != nil {
		t.Fatal(err)
	}
	manifest, err := fileOf(file, "manifest.json")
	if err != nil || !bytes.Contains(manifest, []byte(pauseImage)) {
		t.Errorf("manifest %s, %v, want the name %s", manifest, err, pauseImage)
	}
	if _, err := fileOf(file, "index.json"); err == nil {
		t.Error("a file that does not exist was found")
	}
}

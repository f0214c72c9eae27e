//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A node is a containerd and a kubelet with a bridge, an address and a cgroup.
type node struct {
	name    string
	dir     string
	bridge  string
	cgroup  string
	subnet  string
	address string // of the node, and the gateway of its Pods
}

func (c *cluster) node(i int) node {
	name := fmt.Sprintf("node-%d", i)
	return node{
		name: name, dir: filepath.Join(c.Dir, name), bridge: bridgeName(c.number, i), cgroup: bridgeName(c.number, i),
		subnet: c.ip(i, 0) + "/24", address: c.ip(i, 1),
	}
}

func (n node) socket() string { return filepath.Join(n.dir, "containerd.sock") }

// containerdConfig differs from the defaults only where it must: own paths, no
// negative oom_score_adj (this may not be allowed even to root), and the paths of
// Debian's network plugins.
const containerdConfig = `version = 2
root = "DIR/containerd"
state = "DIR/run"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
  address = "SOCKET"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "PAUSE"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "DIR/cni"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
`

// startRuntime starts the node's containerd and imports the images.
func (c *cluster) startRuntime(ctx context.Context, n node) error {
	for _, dir := range []string{"", "cni", "kubelet", "pods"} {
		if err := os.MkdirAll(filepath.Join(n.dir, dir), 0o755); err != nil {
			return err
		}
	}
	config := strings.NewReplacer("DIR", n.dir, "SOCKET", n.socket(), "PAUSE", pauseImage).Replace(containerdConfig)
	if err := os.WriteFile(filepath.Join(n.dir, "containerd.toml"), []byte(config), 0o600); err != nil {
		return err
	}
	// Without isGateway the plugin neither sets the bridge's address, which it has
	// already, nor enables forwarding for the whole machine.
	err := writeJSON(filepath.Join(n.dir, "cni", "10-bridge.conflist"), object{
		"cniVersion": "0.4.0", "name": n.bridge,
		"plugins": []object{{
			"type": "bridge", "bridge": n.bridge, "hairpinMode": true,
			"ipam": object{
				"type": "host-local", "dataDir": filepath.Join(n.dir, "addresses"),
				"ranges": [][]object{{{"subnet": n.subnet, "gateway": n.address}}}, "routes": []object{{"dst": "0.0.0.0/0"}},
			},
		}},
	})
	if err != nil {
		return err
	}
	p, err := c.spawn("containerd-"+n.name, "containerd", "--config", filepath.Join(n.dir, "containerd.toml"))
	if err != nil {
		return err
	}
	ctr := func(ctx context.Context, args ...string) error {
		return command(ctx, "ctr", append([]string{"--address", n.socket(), "--namespace", "k8s.io"}, args...)...)
	}
	if err := p.await(ctx, func(ctx context.Context) error { return ctr(ctx, "images", "list", "-q") }); err != nil {
		return err
	}
	for _, file := range append([]string{filepath.Join(c.Dir, "pause.tar")}, c.images...) {
		if err := ctr(ctx, "images", "import", file); err != nil {
			return err
		}
	}
	return nil
}

// startKubelet starts the node's kubelet.
func (c *cluster) startKubelet(ctx context.Context, n node) error {
	if err := c.pki.kubeconfig(n.name, "system:node:"+n.name, "system:nodes", c.server()); err != nil {
		return err
	}
	config := filepath.Join(n.dir, "kubelet.json")
	err := writeJSON(config, object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": n.address, "healthzPort": 0, "readOnlyPort": 0,
		"authentication": object{"anonymous": object{"enabled": false}, "webhook": object{"enabled": true},
			"x509": object{"clientCAFile": c.pki.file("ca.crt")}},
		"authorization": object{"mode": "Webhook"},
		// Without systemd, and below a cgroup that can be removed.
		"cgroupDriver": "cgroupfs", "cgroupRoot": "/" + n.cgroup,
		"containerRuntimeEndpoint": "unix://" + n.socket(),
		"podLogsDir":               filepath.Join(n.dir, "pods"), "volumePluginDir": filepath.Join(n.dir, "plugins"),
		"resolvConf": "/dev/null", "failSwapOn": false,
		// A developer's disk may be nearly full.
		"evictionHard": object{"memory.available": "100Mi", "nodefs.available": "500Mi",
			"nodefs.inodesFree": "1%", "imagefs.available": "500Mi"},
		"evictionPressureTransitionPeriod": "10s",
		"imageGCHighThresholdPercent":      100, "imageGCLowThresholdPercent": 99,
		"registryPullQPS": 0,
	})
	if err != nil {
		return err
	}
	p, err := c.spawn("kubelet-"+n.name, c.tool("kubelet"), "--config", config, "--kubeconfig",
		c.pki.file(n.name+".kubeconfig"),
		"--hostname-override", n.name, "--node-ip", n.address, "--root-dir", filepath.Join(n.dir, "kubelet"), "--cert-dir",
		filepath.Join(n.dir, "kubelet", "pki"))
	if err != nil {
		return err
	}
	return p.await(ctx, func(ctx context.Context) error { return c.nodeReady(ctx, n.name) })
}

// nodeReady returns nil if the node has the condition Ready.
func (c *cluster) nodeReady(ctx context.Context, name string) error {
	var found struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := c.api(ctx, "GET", "/api/v1/nodes/"+name, &found); err != nil {
		return err
	}
	for _, condition := range found.Status.Conditions {
		if condition.Type == "Ready" {
			if condition.Status == "True" {
				return nil
			}
			return fmt.Errorf("node %s: %s", name, condition.Message)
		}
	}
	return fmt.Errorf("node %s has no condition Ready", name)
}

type object map[string]any

func writeJSON(file string, value any) error {
	text, err := json.MarshalIndent(value, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

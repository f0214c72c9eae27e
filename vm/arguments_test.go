//go:build linux

package main

import (
	"os"
	"strings"
	"testing"
)

// TestArguments checks how QEMU is started with KVM and without.
func TestArguments(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		kvm           bool
		want, without string
	}{
		{true, "-accel kvm -cpu host", "mitigations=off"},
		{false, "-accel tcg,thread=multi", "kvm"},
	} {
		line := strings.Join(arguments("/image", "/guest", "root=/dev/vda", one.kvm), " ")
		if !strings.Contains(line, one.want) || strings.Contains(line, one.without) ||
			!strings.Contains(line, "-append root=/dev/vda ") || !strings.Contains(line, "file:/guest/console.log") {
			t.Errorf("with KVM %t: %s", one.kvm, line)
		}
	}
}

// TestWriteKey checks that the private key is for its owner only.
func TestWriteKey(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/key"
	if err := writeKey(file); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v, want 600", info, err)
	}
	g := &guest{image: t.TempDir()}
	if _, err := g.config("root"); err == nil {
		t.Error("an image without a key is accepted")
	}
}

package staging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// TestJavaHeapBesideSidecar: the heap of a Java process follows its share of the memory, which
// is what enforced sidecars leave.
func TestJavaHeapBesideSidecar(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	testkit.WriteProgram(t, filepath.Join(home, "bin", "java"), "#!/bin/sh\necho \"java $*\"\n")
	process := &platform.Process{Type: "web", ProcessSettings: platform.ProcessSettings{MemoryMB: 512}}
	for name, test := range map[string]struct {
		sidecars []*platform.Sidecar
		want     []string
	}{
		"alone": {nil, []string{"Java memory: 512 MB in all, heap 287,", "-Xmx287m"}},
		"beside a sidecar": {[]*platform.Sidecar{{Name: "proxy", MemoryMB: 128,
			Options: platform.SidecarOptions{MemoryEnforced: true}}}, []string{"Java memory: 384 MB in all, heap 237,",
			"-Xmx237m"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			main, _ := actions.Memory(process.MemoryMB, test.sidecars)
			cmd := exec.CommandContext(t.Context(), "bash", "buildpacks/packs/java/run/run-java", "-jar", "app.jar")
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "JAVA_HOME=" + home, "MEMORY_LIMIT=" + strconv.Itoa(main) + "m"}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for _, want := range test.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("run-java with %d MB says %s, want %s", main, out, want)
				}
			}
		})
	}
}

package main

import (
	"archive/zip"
	"bytes"
	"debug/buildinfo"
	"debug/macho"
	"debug/pe"
	"encoding/json"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// The client for macOS and Windows is small, and its archive has no files of the server.
// Two of the four systems are built, which `make client-check` compiles as well.
func TestClients(t *testing.T) {
	t.Parallel()
	docs := []file{{"man/ingot.1", 0o644, []byte(".TH")}, {"completions/_ingot", 0o644, []byte("#compdef")}}
	files := written(t, func(out string) error {
		o := options{
			version: testVersion, epoch: time.Unix(1700000000, 0), source: "..", work: t.TempDir(), out: out, only: outputs,
		}
		for _, system := range []target{{"darwin", "arm64"}, {"windows", "amd64"}} {
			if err := o.release(t.Context(), system, docs, io.Discard); err != nil {
				return err
			}
		}
		return nil
	})
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{
		"ingot_1.2.3_darwin_arm64.cdx.json", "ingot_1.2.3_darwin_arm64.tar.gz",
		"ingot_1.2.3_windows_amd64.cdx.json", "ingot_1.2.3_windows_amd64.zip",
	}
	if !slices.Equal(names, want) {
		t.Fatalf("wrote %q, want %q", names, want)
	}

	mac := map[string]file{}
	for name, e := range untar(t, files[want[1]]) {
		if !strings.HasSuffix(name, "/") {
			mac[name] = file{name, e.FileInfo().Mode(), e.data}
		}
	}
	program := checkClient(t, mac, "ingot-1.2.3-darwin-arm64/", "ingot", "man/ingot.1", "completions/_ingot")
	if f, err := macho.NewFile(bytes.NewReader(program)); err != nil || f.Cpu != macho.CpuArm64 {
		t.Errorf("not a program for macOS on arm64: %v", err)
	}
	checkClientSBOM(t, files[want[0]])

	program = checkClient(t, unzip(t, files[want[3]]), "ingot-1.2.3-windows-amd64/", "ingot.exe")
	if f, err := pe.NewFile(bytes.NewReader(program)); err != nil || f.Machine != pe.IMAGE_FILE_MACHINE_AMD64 {
		t.Errorf("not a program for Windows on amd64: %v", err)
	}
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(info.Settings, debug.BuildSetting{Key: "-tags", Value: "forceposix"}) {
		t.Errorf("the program for Windows was built with %+v, want the tag forceposix", info.Settings)
	}
	checkClientSBOM(t, files[want[2]])
}

func unzip(t *testing.T, archive []byte) map[string]file {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]file{}
	for _, e := range z.File {
		if e.Modified.Unix() != 1700000000 {
			t.Errorf("%s has the time %s, want the epoch", e.Name, e.Modified)
		}
		r, err := e.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name] = file{e.Name, e.Mode(), data}
	}
	return all
}

// checkClient checks the files of an archive below root, and returns the program.
func checkClient(t *testing.T, all map[string]file, root, program string, more ...string) []byte {
	t.Helper()
	p := all[root+program]
	if p.mode != 0o755 || len(p.data) < 1<<20 || len(p.data) > 20<<20 {
		t.Errorf("%s has the mode %o and %d bytes, want a program of at most 20 MB", program, p.mode, len(p.data))
	}
	for _, name := range append(more, "README.md", "LICENSE", "NOTICE", "docs/commands.md", "sbom.cdx.json") {
		if len(all[root+name].data) == 0 {
			t.Errorf("%s is missing or empty", name)
		}
	}
	for name := range all {
		if strings.Contains(name, "packaging/") || strings.Contains(name, "man/") && len(more) == 0 {
			t.Errorf("%s is of no use there", name)
		}
	}
	return p.data
}

// checkClientSBOM checks that a client has some of the modules of the server, and no database.
func checkClientSBOM(t *testing.T, text []byte) {
	t.Helper()
	validateSBOM(t, text)
	var bom struct{ Components []struct{ Name string } }
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	known, err := os.ReadFile("../docs/dependencies.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range bom.Components {
		if c.Name != "std" && !bytes.Contains(known, []byte("\n"+c.Name+" ")) {
			t.Errorf("docs/dependencies.txt has no %s", c.Name)
		}
		if strings.HasPrefix(c.Name, "modernc.org/") {
			t.Errorf("the client links %s", c.Name)
		}
	}
	if len(bom.Components) < 5 {
		t.Errorf("only %d modules", len(bom.Components))
	}
}

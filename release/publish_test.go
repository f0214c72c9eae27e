package main

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/google/rpmpack"
)

const testURL = "https://releases.example/ingot/" + testVersion

// testKey returns the file of a secret key for this test run.
func testKey(t *testing.T) string {
	t.Helper()
	path, err := keyOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var keyOnce = sync.OnceValues(func() (string, error) {
	dir, err := testDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "key.gpg")
	data, err := secretKey(packet.PubKeyAlgoRSA)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	return path, err
})

func secretKey(algorithm packet.PublicKeyAlgorithm) ([]byte, error) {
	made := func() time.Time { return time.Unix(1600000000, 0) }
	entity, err := openpgp.NewEntity("Release", "", "release@example.com",
		&packet.Config{RSABits: 2048, Algorithm: algorithm, Time: made})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = entity.SerializePrivate(&b, nil)
	return b.Bytes(), err
}

// published returns the folder of a signed release for this machine. The files for other
// systems only have the right names.
func published(t *testing.T) string {
	t.Helper()
	publishedOnce.Do(func() {
		released(t, "*.rpm")
		dir, err := testDir()
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range releasedFiles {
			write(t, filepath.Join(dir, "dist", name), string(data))
		}
		publish(t, filepath.Join(dir, "dist"), "--signing-key", testKey(t))
		publishedDir = filepath.Join(dir, "dist")
	})
	if publishedDir == "" {
		t.Fatal("no release was published")
	}
	return publishedDir
}

var (
	publishedOnce sync.Once
	publishedDir  string
)

// publish adds files for the systems that are missing, and publishes the folder.
func publish(t *testing.T, dir string, args ...string) {
	t.Helper()
	for _, system := range slices.Concat(clients, []target{{"linux", "amd64"}, {"linux", "arm64"}}) {
		ext := ".tar.gz"
		if system.os == "windows" {
			ext = ".zip"
		}
		name := filepath.Join(dir, "ingot_"+testVersion+"_"+system.os+"_"+system.arch+ext)
		if _, err := os.Stat(name); err == nil {
			continue
		}
		small, err := tarGz("ingot-"+testVersion+"-"+system.os+"-"+system.arch+"/", []file{
			{"ingot", 0o755, []byte("#!/bin/sh\n")}, {"man/ingot.1", 0o644, nil}, {"completions/ingot.bash", 0o644, nil},
			{"completions/_ingot", 0o644, nil}, {"completions/ingot.fish", 0o644, nil},
		}, time.Unix(1700000000, 0))
		if err != nil {
			t.Fatal(err)
		}
		write(t, name, string(small))
	}
	args = append(args, "--publish", "--version", testVersion, "--epoch", "1700000000", "--out", dir,
		"--url", testURL, "--source-url", "https://source.example/ingot", "--commit", strings.Repeat("1e", 20))
	if err := run(t.Context(), args, io.Discard); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// does runs a program that has to succeed, and returns what it prints.
func does(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// needs skips a test on machines without a program; `scripts/setup test` installs all of them.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
}

// Every file of the folder is in SHA256SUMS, whose signature gpgv accepts.
func TestChecksums(t *testing.T) {
	t.Parallel()
	dir := published(t)
	sums := read(t, filepath.Join(dir, "SHA256SUMS"))
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		if err != nil || e.IsDir() || strings.HasPrefix(name, "SHA256SUMS") {
			return err
		}
		if _, sum, err := checksum(path); err != nil || !strings.Contains(sums, sum+"  "+name+"\n") {
			t.Errorf("SHA256SUMS has no %s with %s, %v", name, sum, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	needs(t, "gpgv")
	does(t, "gpgv", "--keyring", filepath.Join(dir, keyName+".gpg"), filepath.Join(dir, "SHA256SUMS.asc"),
		filepath.Join(dir, "SHA256SUMS"))
	does(t, "gpgv", "--keyring", filepath.Join(dir, keyName+".gpg"), dir+"/apt/dists/stable/InRelease")
}

// apt downloads the package of a signed and of an unsigned repository, and refuses one whose
// lists were changed.
func TestAptRepository(t *testing.T) {
	t.Parallel()
	needs(t, "apt-get", "dpkg")
	dir := published(t)
	deb := "ingot_" + testVersion + "_" + runtime.GOARCH + ".deb"
	apt := func(t *testing.T, source string) (string, string) {
		t.Helper()
		state := t.TempDir()
		for _, name := range []string{"lists/partial", "cache/archives/partial", "etc", "down"} {
			if err := os.MkdirAll(filepath.Join(state, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		write(t, filepath.Join(state, "status"), "")
		write(t, filepath.Join(state, "sources.list"), source+"\n")
		cmd := exec.Command("sh", "-c", `apt-get "$@" update && apt-get "$@" download ingot`, "sh", "-q",
			"-o", "Dir::State="+state, "-o", "Dir::State::lists="+state+"/lists", "-o", "Dir::State::status="+state+"/status",
			"-o", "Dir::Cache="+state+"/cache", "-o", "Dir::Etc="+state+"/etc",
			"-o", "Dir::Etc::sourcelist="+state+"/sources.list", "-o", "Dir::Etc::sourceparts=-",
			"-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1", "-o", "APT::Update::Error-Mode=any")
		cmd.Dir = filepath.Join(state, "down")
		out, _ := cmd.CombinedOutput() // the file that is missing says it
		got, _ := os.ReadFile(filepath.Join(cmd.Dir, deb))
		return string(got), string(out)
	}
	want := read(t, filepath.Join(dir, deb))
	signed := "deb [signed-by=" + filepath.Join(dir, keyName+".gpg") + "] file://"
	if got, out := apt(t, signed+dir+"/apt stable main"); got != want {
		t.Errorf("the signed repository: %d bytes, want %d\n%s", len(got), len(want), out)
	}
	if got, out := apt(t, "deb file://"+dir+"/apt stable main"); got != "" {
		t.Errorf("apt trusts the repository without the key:\n%s", out)
	}
	changed := filepath.Join(t.TempDir(), "dist")
	if err := os.CopyFS(changed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(changed, "apt/dists/stable/main/binary-"+runtime.GOARCH+"/Packages")
	write(t, list, strings.Replace(read(t, list), "Depends: runc", "Depends: libc6", 1))
	if err := os.Remove(list + ".gz"); err != nil {
		t.Fatal(err)
	}
	if got, out := apt(t, signed+changed+"/apt stable main"); got != "" {
		t.Errorf("apt accepts a changed list:\n%s", out)
	}
	write(t, filepath.Join(changed, deb), want)
	for _, name := range []string{"apt/dists/stable/InRelease", "apt/dists/stable/Release.gpg"} {
		if err := os.Remove(filepath.Join(changed, name)); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, changed)
	if text := read(t, changed+"/apt/ingot.sources"); !strings.Contains(text, "\nTrusted: yes\n") {
		t.Errorf("ingot.sources of a release without a key:\n%s", text)
	}
	if got, out := apt(t, "deb [trusted=yes] file://"+changed+"/apt stable main"); got != want {
		t.Errorf("the repository without a signature: %d bytes, want %d\n%s", len(got), len(want), out)
	}
}

// rpm reads the package and its signature, and dnf installs it from the repository, with what it
// requires.
func TestRPMRepository(t *testing.T) {
	t.Parallel()
	needs(t, "rpm", "dnf", "createrepo_c")
	if os.Getuid() != 0 {
		t.Skip("rpm installs below another root only as root")
	}
	dir, work := published(t), t.TempDir()
	name := filepath.Join(dir, rpmName(testVersion, runtime.GOARCH))
	db := "--dbpath=" + filepath.Join(work, "db")
	if out, err := exec.Command("rpm", db, "-K", name).CombinedOutput(); err == nil {
		t.Errorf("rpm -K without the key: %s", out)
	}
	does(t, "rpm", db, "--import", filepath.Join(dir, keyName+".asc"))
	if out := does(t, "rpm", db, "-K", name); !strings.HasSuffix(out, ": digests signatures OK\n") {
		t.Errorf("rpm -K: %s", out)
	}
	// createrepo_c writes the same about the package.
	if err := os.CopyFS(filepath.Join(work, "again"), os.DirFS(dir+"/rpm/Packages")); err != nil {
		t.Fatal(err)
	}
	does(t, "createrepo_c", filepath.Join(work, "again"))
	query := func(folder string) string {
		return does(t, "dnf", "-q", "--disablerepo=*", "--repofrompath=x,file://"+folder, "--setopt=cachedir="+
			t.TempDir(), "--setopt=logdir="+work, "--setopt=persistdir="+work, "--nogpgcheck", "repoquery", "--queryformat",
			"%{name} %{epoch} %{version} %{release} %{arch} %{size} %{installsize} %{summary} %{description} %{license} "+
				"%{sourcerpm} %{requires} %{recommends} %{provides} %{files}")
	}
	if got, want := query(filepath.Join(dir, "rpm")), query(filepath.Join(work, "again")); got != want || len(got) < 1000 {
		t.Errorf("dnf reads\n%s\nwant what createrepo_c writes\n%s", got, want)
	}

	for _, name := range []string{"runc", "e2fsprogs"} {
		p, err := rpmpack.NewRPM(rpmpack.RPMMetaData{Name: name, Version: "1", Release: "1", Epoch: rpmpack.NoEpoch})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(work, "others", name+".rpm"), b.String())
	}
	does(t, "createrepo_c", filepath.Join(work, "others"))
	root := filepath.Join(work, "root")
	does(t, "dnf", "-y", "-q", "--installroot="+root, "--disablerepo=*", "--repofrompath=others,file://"+
		filepath.Join(work, "others"), "--repofrompath=ingot,file://"+filepath.Join(dir, "rpm"), "--setopt=others.gpgcheck=0",
		"--setopt=ingot.gpgcheck=1", "--setopt=ingot.repo_gpgcheck=1", "--setopt=ingot.gpgkey=file://"+
			filepath.Join(dir, keyName+".asc"), "--setopt=cachedir="+filepath.Join(work, "cache"), "--setopt=logdir="+work,
		"--setopt=tsflags=noscripts", "--releasever=1", "install", "ingot")
	if got := read(t, root+"/usr/bin/ingot"); got != read(t, filepath.Join(programsDir(t), "ingot")) {
		t.Error("dnf installed another ingot")
	}
	does(t, "rpm", "--root", root, "-V", "--nodeps", "ingot")
	want := "/etc/default/ingot\n/etc/needrestart/conf.d/ingot.conf\n"
	if out := does(t, "rpm", "--root", root, "-qc", "ingot"); out != want {
		t.Errorf("configuration files %q, want %q", out, want)
	}
	does(t, "rpm", "--root", root, "-e", "--noscripts", "ingot")
	if left, err := filepath.Glob(root + "/usr/*/*ingot*"); err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
}

// The formula and the manifest have the addresses and checksums of the archives.
func TestFormulaAndManifest(t *testing.T) {
	t.Parallel()
	dir := published(t)
	formula := read(t, filepath.Join(dir, "ingot.rb"))
	archive := regexp.MustCompile(`url "` + regexp.QuoteMeta(testURL) + `/(.*)"\s+sha256 "(.*)"`)
	pairs := archive.FindAllStringSubmatch(formula, -1)
	if len(pairs) != 4 {
		t.Errorf("the formula has %d archives, want 4:\n%s", len(pairs), formula)
	}
	var manifest struct {
		Version, Bin string
		Architecture map[string]struct{ URL, Hash, Extract_dir string } //nolint:revive // the field's name
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, "ingot.json"))), &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Version != testVersion || manifest.Bin != "ingot.exe" || len(manifest.Architecture) != 2 {
		t.Errorf("the manifest is %+v", manifest)
	}
	for name, arch := range map[string]string{"64bit": "amd64", "arm64": "arm64"} {
		a := manifest.Architecture[name]
		pairs = append(pairs, []string{"", strings.TrimPrefix(a.URL, testURL+"/"), a.Hash})
		if want := "ingot-" + testVersion + "-windows-" + arch; a.Extract_dir != want {
			t.Errorf("%s is unpacked from %s, want %s", name, a.Extract_dir, want)
		}
	}
	for _, pair := range pairs {
		if _, sum, err := checksum(filepath.Join(dir, pair[1])); err != nil || sum != pair[2] {
			t.Errorf("%s has the checksum %s, not %s: %v", pair[1], sum, pair[2], err)
		}
	}
	needs(t, "ruby")
	does(t, "ruby", "-wc", filepath.Join(dir, "ingot.rb"))
}

// A folder without clients is published only if that is meant, and then names none.
func TestPublishWithoutClients(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ingot_"+testVersion+"_linux_amd64.tar.gz"), "archive")
	args := []string{"--publish", "--version", testVersion, "--out", dir, "--url", testURL, "--source-url", testURL,
		"--commit", "1e"}
	if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), "darwin") {
		t.Errorf("without the client for macOS: %v", err)
	}
	if err := run(t.Context(), append(args, "--clients", "none"), io.Discard); err != nil {
		t.Fatal(err)
	}
	if text := read(t, filepath.Join(dir, "RELEASE.md")); strings.Contains(text, "scoop") ||
		strings.Contains(text, "brew") || !strings.Contains(text, "install.sh") {
		t.Errorf("the page is\n%s", text)
	}
	if text := read(t, filepath.Join(dir, "SHA256SUMS")); strings.Contains(text, "ingot.rb") ||
		!strings.Contains(text, "install.sh") {
		t.Errorf("the checksums are\n%s", text)
	}
}

// The provenance names every file and the commit, and its envelope is signed. The page has the
// same checksums.
func TestProvenance(t *testing.T) {
	t.Parallel()
	dir := published(t)
	var e envelope
	if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, "provenance.intoto.jsonl"))), &e); err != nil {
		t.Fatal(err)
	}
	document, err := base64.StdEncoding.DecodeString(e.Payload)
	if err != nil || string(document)+"\n" != read(t, filepath.Join(dir, "provenance.json")) {
		t.Errorf("the envelope has another document than provenance.json: %v", err)
	}
	block, _ := pem.Decode([]byte(read(t, filepath.Join(dir, keyName+".pem"))))
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := base64.StdEncoding.DecodeString(e.Signatures[0].Sig)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "DSSEv1 28 application/vnd.in-toto+json %d %s", len(document), document))
	if err := rsa.VerifyPKCS1v15(key.(*rsa.PublicKey), crypto.SHA256, sum[:], signature); err != nil {
		t.Error(err)
	}
	var s statement
	if err := json.Unmarshal(document, &s); err != nil {
		t.Fatal(err)
	}
	if s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != "https://slsa.dev/provenance/v1" ||
		s.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"] != strings.Repeat("1e", 20) ||
		s.Predicate.RunDetails.Builder.ID == "" || s.Predicate.BuildDefinition.BuildType == "" {
		t.Errorf("the statement is %s", document)
	}
	page := read(t, filepath.Join(dir, "RELEASE.md"))
	var names []string
	for _, subject := range s.Subject {
		names = append(names, subject.Name)
		if _, sum, err := checksum(filepath.Join(dir, subject.Name)); err != nil || sum != subject.Digest["sha256"] {
			t.Errorf("%s has the checksum %s, not %s: %v", subject.Name, sum, subject.Digest["sha256"], err)
		}
		if !strings.Contains(page, "/"+subject.Name+") |") || !strings.Contains(page, subject.Digest["sha256"]) {
			t.Errorf("the page has no %s", subject.Name)
		}
	}
	for name := range releasedFiles {
		if !slices.Contains(names, name) {
			t.Errorf("the provenance has no %s", name)
		}
	}
	if strings.Contains(page, "<no value>") || !strings.Contains(page, "curl -fsSL "+testURL+"/install.sh") {
		t.Errorf("the page:\n%s", page)
	}
}

// Two publications of the same files are the same, with signatures.
func TestPublishReproducible(t *testing.T) {
	t.Parallel()
	var sums [2]string
	for i := range sums {
		dir := t.TempDir()
		publish(t, dir, "--signing-key", testKey(t))
		sums[i] = read(t, filepath.Join(dir, "SHA256SUMS")) + read(t, filepath.Join(dir, "SHA256SUMS.asc"))
	}
	if sums[0] != sums[1] {
		t.Errorf("%s\ndiffers from\n%s", sums[0], sums[1])
	}
}

// Keys that cannot sign a release are refused with what to do.
func TestSigningKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other, err := secretKey(packet.PubKeyAlgoEdDSA)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "other"), string(other))
	write(t, filepath.Join(dir, "text"), "not a key")
	public := read(t, filepath.Join(published(t), keyName+".asc"))
	write(t, filepath.Join(dir, "public"), public)
	for name, want := range map[string]string{
		"other": "is not an RSA key; create one with: gpg", "text": "is not an OpenPGP key", "missing": "no such file",
		"public": "must have one secret key",
	} {
		if _, err := readKey(filepath.Join(dir, name), "", time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

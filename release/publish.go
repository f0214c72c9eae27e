package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// keyName is the stem of the files with the public key.
const keyName = "ingot-release"

// publication is what is written about the finished files of a release: repositories, the
// formula and the manifest, install.sh, the page, the provenance and the checksums.
type publication struct {
	version   string
	epoch     time.Time
	url       string // of the folder with the files
	sourceURL string // of the repository with the source
	commit    string
	builder   string
	clients   bool    // also for Homebrew and Scoop, which need the clients of all systems
	key       *signer // nil to sign nothing
	out       string
	artefacts []artefact
	all       []artefact // of the folder, with what is written here
}

// artefact is a file of a release with its checksum. Only packages have their data.
type artefact struct {
	file
	size int64
	sum  string
}

// publish writes what describes the files in a folder, and prints what it wrote.
func (p *publication) publish(out io.Writer) error {
	if err := p.readArtefacts(); err != nil {
		return err
	}
	steps := []func() ([]file, error){p.installScript}
	if p.clients {
		steps = append(steps, p.homebrew, p.scoop)
	}
	steps = append(steps, p.keys, p.provenance, p.aptRepository, p.rpmRepository, p.page, p.checksums)
	for _, step := range steps {
		files, err := step()
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := p.write(f); err != nil {
				return err
			}
		}
	}
	signed := "nothing is signed: pass a key to sign it"
	if p.key != nil {
		signed = fmt.Sprintf("signed by %X", p.key.key.Fingerprint)
	}
	fmt.Fprintf(out, "%s: %d files, for %s; %s\n", p.out, len(p.all), p.url, signed)
	return nil
}

// readArtefacts reads the built files of the folder, and removes what was published before.
func (p *publication) readArtefacts() error {
	for _, dir := range []string{"apt", "rpm"} {
		if err := os.RemoveAll(filepath.Join(p.out, dir)); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(p.out)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if !e.Type().IsRegular() || !strings.HasPrefix(name, "ingot_") && !strings.HasPrefix(name, "ingot-") ||
			strings.HasPrefix(name, keyName+".") {
			continue
		}
		a := artefact{file: file{name: name, mode: 0o644}}
		at := filepath.Join(p.out, name)
		if ext := path.Ext(name); ext == ".deb" || ext == ".rpm" {
			if a.data, err = os.ReadFile(at); err != nil {
				return err
			}
		}
		if a.size, a.sum, err = checksum(at); err != nil {
			return err
		}
		p.artefacts = append(p.artefacts, a)
	}
	if len(p.artefacts) == 0 {
		return fmt.Errorf("%s has no files of a release: run without --publish first", p.out)
	}
	p.all = slices.Clone(p.artefacts)
	return nil
}

func checksum(path string) (int64, string, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return n, fmt.Sprintf("%x", h.Sum(nil)), err
}

func (p *publication) write(f file) error {
	at := filepath.Join(p.out, filepath.FromSlash(f.name))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil { //nolint:gosec // published
		return err
	}
	if err := writeFile(at, f.data); err != nil {
		return err
	}
	p.all = append(p.all, artefact{file{name: f.name, mode: f.mode}, int64(len(f.data)),
		fmt.Sprintf("%x", sha256.Sum256(f.data))})
	return os.Chmod(at, f.mode)
}

// find returns the artefact whose name matches a pattern.
func (p *publication) find(pattern string) (artefact, error) {
	for _, a := range p.artefacts {
		if ok, _ := path.Match(pattern, a.name); ok {
			return a, nil
		}
	}
	return artefact{}, fmt.Errorf("%s: %w: %s", p.out, fs.ErrNotExist, pattern)
}

// keys returns the public key for those who verify.
func (p *publication) keys() ([]file, error) {
	if p.key == nil {
		return nil, nil
	}
	binary, text, err := p.key.publicKey()
	if err != nil {
		return nil, err
	}
	pem, err := p.key.publicPEM()
	return []file{{keyName + ".gpg", 0o644, binary}, {keyName + ".asc", 0o644, text}, {keyName + ".pem", 0o644, pem}}, err
}

// checksums returns SHA256SUMS with all files, and its signature.
func (p *publication) checksums() ([]file, error) {
	all := slices.Clone(p.all)
	slices.SortFunc(all, func(a, b artefact) int {
		// Those that are downloaded come first.
		return cmp.Or(cmp.Compare(strings.Count(a.name, "/"), strings.Count(b.name, "/")), strings.Compare(a.name, b.name))
	})
	var text strings.Builder
	for _, a := range all {
		fmt.Fprintf(&text, "%s  %s\n", a.sum, a.name)
	}
	files := []file{{"SHA256SUMS", 0o644, []byte(text.String())}}
	if p.key == nil {
		return files, nil
	}
	signature, err := p.key.armored([]byte(text.String()))
	return append(files, file{"SHA256SUMS.asc", 0o644, signature}), err
}

// publication checks the options for --publish.
func (o options) publication() (*publication, error) {
	p := &publication{
		version: o.version, epoch: o.epoch, url: strings.TrimSuffix(o.url, "/"),
		sourceURL: strings.TrimSuffix(o.sourceURL, "/"), commit: o.commit, builder: o.builder, key: o.key, out: o.out,
		clients: slices.ContainsFunc(o.targets, func(t target) bool { return t.os != "linux" }),
	}
	for _, u := range []string{p.url, p.sourceURL} {
		if !strings.Contains(u, "://") || strings.ContainsAny(u, " \t\n'\"\\$`") {
			return nil, fmt.Errorf("--url and --source-url: %q is not a URL", u)
		}
	}
	if p.commit == "" {
		return nil, errors.New("--commit is required: git rev-parse HEAD prints it")
	}
	p.builder = cmp.Or(p.builder, p.sourceURL+"#make-release")
	return p, nil
}

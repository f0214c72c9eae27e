package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"strings"
	"text/template"
)

var (
	//go:embed publish/ingot.rb
	formula string
	//go:embed publish/install.sh
	installer string
	//go:embed publish/page.tmpl
	page string
)

// summary is what every package manager says.
func summary() string { return fieldOf(control, "Description") }

// homebrew returns a formula: the client on macOS, the server as well on Linux.
func (p *publication) homebrew() ([]file, error) {
	text, err := p.fill(formula)
	return []file{{"ingot.rb", 0o644, text}}, err
}

// installScript returns install.sh, which knows where the files are.
func (p *publication) installScript() ([]file, error) {
	text := strings.NewReplacer("@VERSION@", p.version, "@URL@", p.url).Replace(installer)
	return []file{{"install.sh", 0o755, []byte(text)}}, nil
}

// page returns the release page.
func (p *publication) page() ([]file, error) {
	text, err := p.fill(page)
	return []file{{"RELEASE.md", 0o644, text}}, err
}

// scoop returns a manifest for Scoop, a package manager of Windows.
func (p *publication) scoop() ([]file, error) {
	type download struct {
		URL    string `json:"url"`
		Hash   string `json:"hash"`
		Folder string `json:"extract_dir"`
	}
	arches := map[string]download{}
	for name, arch := range map[string]string{"64bit": "amd64", "arm64": "arm64"} {
		a, err := p.find("ingot_*_windows_" + arch + ".zip")
		if err != nil {
			return nil, err
		}
		arches[name] = download{p.url + "/" + a.name, a.sum, "ingot-" + p.version + "-windows-" + arch}
	}
	text, err := json.MarshalIndent(struct {
		Version      string              `json:"version"`
		Description  string              `json:"description"`
		Homepage     string              `json:"homepage"`
		License      string              `json:"license"`
		Architecture map[string]download `json:"architecture"`
		Bin          string              `json:"bin"`
	}{p.version, summary(), p.sourceURL, "Apache-2.0", arches, "ingot.exe"}, "", "    ")
	return []file{{"ingot.json", 0o644, append(text, '\n')}}, err
}

// fill returns a template with the names of this release.
func (p *publication) fill(text string) ([]byte, error) {
	type row struct {
		Name, Sum, About string
		MB               float64
	}
	rowOf := func(a artefact) row { return row{a.name, a.sum, about(a.name), float64(a.size) / 1e6} }
	find := func(pattern string) (row, error) {
		a, err := p.find(pattern)
		return rowOf(a), err
	}
	t, err := template.New("").Option("missingkey=error").Funcs(template.FuncMap{"file": find}).Parse(text)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, a := range p.all {
		if !strings.Contains(a.name, "/") {
			rows = append(rows, rowOf(a))
		}
	}
	image, _ := p.find("ingot-server_*") // IMAGE_ARCH=none writes none
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{
		"Version": p.version, "URL": p.url, "Source": p.sourceURL, "Commit": p.commit, "Summary": summary(),
		"Date": p.epoch.Format("2006-01-02"), "Signed": p.key != nil, "Key": keyName, "Files": rows,
		"Placeholder": strings.Contains(p.url, ".example/"), "Fingerprint": p.fingerprint(), "Programs": programs[1:],
		"Image": image.name, "Clients": p.clients,
	})
	return b.Bytes(), err
}

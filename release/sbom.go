package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
)

// sbom returns the bill of materials of built programs: what the go tool recorded in
// them, with the licenses of the modules.
func (o options) sbom(ctx context.Context, dir string, t target) ([]byte, error) {
	linked, own, err := linkedModules(dir, t.programs())
	if err != nil {
		return nil, err
	}
	folders, err := o.moduleFolders(ctx, t)
	if err != nil {
		return nil, err
	}
	license, err := licenseOf(o.source)
	if err != nil {
		return nil, err
	}
	main := cdx.Component{
		BOMRef: "ingot", Type: cdx.ComponentTypeApplication, Name: "ingot", Version: o.version,
		PackageURL: purl("pkg:generic/ingot", o.version), Licenses: licenses(license), Components: &own,
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: o.epoch.Format("2006-01-02T15:04:05Z"), Component: &main,
		Properties: &[]cdx.Property{{Name: "cdx:gomod:build:env:GOOS", Value: t.os}, {Name: "cdx:gomod:build:env:GOARCH",
			Value: t.arch}, {Name: "cdx:gomod:build:env:CGO_ENABLED", Value: "0"}},
	}
	var components []cdx.Component
	for _, m := range linked {
		c := cdx.Component{
			BOMRef: m.Path + "@" + m.Version, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
			PackageURL: purl("pkg:golang/"+m.Path, m.Version), Scope: cdx.ScopeRequired,
		}
		if folder := folders[m.Path]; folder != "" {
			license, err := licenseOf(folder)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.Path, err)
			}
			c.Licenses = licenses(license)
		}
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil &&
			len(sum) == sha256.Size {
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		}
		components = append(components, c)
	}
	bom.Components = &components
	if bom.Dependencies, err = o.dependencies(ctx, t, linked); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := encode(&b, bom); err != nil {
		return nil, err
	}
	// The serial number is derived from the content, so that it is the same each time.
	sum := sha256.Sum256(b.Bytes())
	bom.SerialNumber = "urn:uuid:" + uuid(sum[:16])
	b.Reset()
	err = encode(&b, bom)
	return b.Bytes(), err
}

func encode(w io.Writer, bom *cdx.BOM) error {
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
}

// uuid formats 16 bytes as a UUID of version 8, which is for values of one's own.
func uuid(b []byte) string {
	b = slices.Clone(b)
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func purl(name, version string) string { return name + "@" + url.PathEscape(version) }

// linkedModules returns the modules that the programs contain, and the programs.
func linkedModules(dir string, names []string) ([]debug.Module, []cdx.Component, error) {
	found := map[string]debug.Module{}
	var own []cdx.Component
	for _, program := range names {
		path := filepath.Join(dir, program)
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", program, err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		own = append(own, cdx.Component{
			BOMRef: "program:" + program, Type: cdx.ComponentTypeApplication, Name: program,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(data))}},
		})
		found["std"] = debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			found[m.Path] = *m
		}
	}
	var all []debug.Module
	for _, m := range found {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b debug.Module) int { return strings.Compare(a.Path, b.Path) })
	return all, own, nil
}

// moduleFolders returns the folders of modules, and of the standard library.
func (o options) moduleFolders(ctx context.Context, t target) (map[string]string, error) {
	text, err := o.goTool(ctx, t, "list", "-m", "-json=Path,Dir", "all")
	if err != nil {
		return nil, err
	}
	root, err := o.goTool(ctx, t, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	folders := map[string]string{"std": strings.TrimSpace(string(root))}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var m struct{ Path, Dir string }
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return folders, nil
		} else if err != nil {
			return nil, err
		}
		folders[m.Path] = m.Dir
	}
}

var licenseName = regexp.MustCompile(`(?i)^(licen[sc]e|copying)([-._].*)?$`)

// licenseOf returns the SPDX expression of the license in a folder, or "" if it is not
// known.
func licenseOf(folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	found := map[string]bool{}
	for _, e := range entries {
		if !licenseName.MatchString(e.Name()) || e.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return "", err
		}
		const enough = 75 // percent of the text, as the Go package site has it
		if cover := licensecheck.Scan(text); cover.Percent >= enough {
			for _, m := range cover.Match {
				found[m.ID] = true
			}
		}
	}
	var ids []string
	for id := range found {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return strings.Join(ids, " AND "), nil
}

func licenses(expression string) *cdx.Licenses {
	switch {
	case expression == "":
		return nil
	case strings.Contains(expression, " "):
		return &cdx.Licenses{{Expression: expression}}
	}
	return &cdx.Licenses{{License: &cdx.License{ID: expression}}}
}

// dependencies returns which linked module requires which.
func (o options) dependencies(ctx context.Context, t target, linked []debug.Module) (*[]cdx.Dependency, error) {
	graph, err := o.goTool(ctx, t, "mod", "graph")
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, m := range linked {
		versions[m.Path] = m.Version
	}
	edges := map[string]map[string]bool{}
	for line := range strings.Lines(string(graph)) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
		from, version, required := strings.Cut(from, "@")
		to, _, _ = strings.Cut(to, "@")
		if required && versions[from] != version || versions[to] == "" {
			continue // another version of the module, or one that is not linked
		}
		if edges[from] == nil {
			edges[from] = map[string]bool{}
		}
		edges[from][to+"@"+versions[to]] = true
	}
	edge := func(ref, path string) cdx.Dependency {
		var to []string
		for name := range edges[path] {
			to = append(to, name)
		}
		slices.Sort(to)
		return cdx.Dependency{Ref: ref, Dependencies: &to}
	}
	all := []cdx.Dependency{edge("ingot", "ingot")}
	for _, m := range linked {
		all = append(all, edge(m.Path+"@"+m.Version, m.Path))
	}
	return &all, nil
}

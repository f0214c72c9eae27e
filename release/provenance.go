package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// The documents of in-toto and SLSA: https://in-toto.io/Statement/v1,
// https://slsa.dev/provenance/v1
type (
	descriptor struct {
		Name   string            `json:"name,omitempty"`
		URI    string            `json:"uri,omitempty"`
		Digest map[string]string `json:"digest,omitempty"`
	}
	statement struct {
		Type          string       `json:"_type"`
		Subject       []descriptor `json:"subject"`
		PredicateType string       `json:"predicateType"`
		Predicate     predicate    `json:"predicate"`
	}
	predicate struct {
		BuildDefinition struct {
			BuildType            string            `json:"buildType"`
			ExternalParameters   map[string]string `json:"externalParameters"`
			InternalParameters   map[string]string `json:"internalParameters"`
			ResolvedDependencies []descriptor      `json:"resolvedDependencies"`
		} `json:"buildDefinition"`
		RunDetails struct {
			Builder struct {
				ID string `json:"id"`
			} `json:"builder"`
		} `json:"runDetails"`
	}
)

// payloadType is that of a statement in an envelope.
const payloadType = "application/vnd.in-toto+json"

// provenance returns how the files came into being, as SLSA describes it, and the same in an
// envelope if there is a key. It has no time of the build and no name of a machine: two builds
// have the same.
func (p *publication) provenance() ([]file, error) {
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	for _, a := range p.all {
		s.Subject = append(s.Subject, descriptor{Name: a.name, Digest: map[string]string{"sha256": a.sum}})
	}
	slices.SortFunc(s.Subject, func(a, b descriptor) int { return strings.Compare(a.Name, b.Name) })
	build := &s.Predicate.BuildDefinition
	build.BuildType = p.sourceURL + "/blob/" + p.commit + "/scripts/release"
	build.ExternalParameters = map[string]string{"version": p.version, "url": p.url}
	build.InternalParameters = map[string]string{"epoch": fmt.Sprint(p.epoch.Unix())}
	build.ResolvedDependencies = []descriptor{
		{URI: "git+" + p.sourceURL + "@" + p.commit, Digest: map[string]string{"gitCommit": p.commit}},
		{URI: "pkg:generic/go@" + strings.TrimPrefix(runtime.Version(), "go")},
	}
	s.Predicate.RunDetails.Builder.ID = p.builder
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	files := []file{{"provenance.json", 0o644, append(text, '\n')}}
	if p.key == nil {
		return files, nil
	}
	signed, err := p.key.envelope(payloadType, text)
	return append(files, file{"provenance.intoto.jsonl", 0o644, signed}), err
}

// fingerprint returns that of the key, or "".
func (p *publication) fingerprint() string {
	if p.key == nil {
		return ""
	}
	return fmt.Sprintf("%X", p.key.entity.PrimaryKey.Fingerprint)
}

// about says what a file of a release is.
func about(name string) string {
	for _, kind := range []struct{ part, about string }{
		{"ingot-server_", "image of the server (OCI archive)"},
		{".deb", "server and client: package for Debian and Ubuntu"},
		{".rpm", "server and client: package for Fedora, RHEL and openSUSE"},
		{".cdx.json", "SBOM (CycloneDX)"},
		{"_linux_", "server and client: archive for Linux"},
		{"_darwin_", "client: archive for macOS"},
		{"_windows_", "client: archive for Windows"},
		{"install.sh", "installs the server and the client"},
		{"ingot.rb", "Homebrew formula"},
		{"ingot.json", "Scoop manifest"},
		{"provenance.intoto", "provenance (SLSA), signed"},
		{"provenance.json", "provenance (SLSA)"},
		{keyName + ".", "public key of the signatures"},
	} {
		if strings.Contains(name, kind.part) {
			return kind.about
		}
	}
	return ""
}

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// aptRepository returns the files of an apt repository with the Debian packages of a release:
// one suite, named stable, with one component.
func (p *publication) aptRepository() ([]file, error) {
	index := map[string]*strings.Builder{} // by architecture
	var all []file
	for _, f := range p.artefacts {
		if path.Ext(f.name) != ".deb" {
			continue
		}
		fields, err := debControl(f.data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		arch := fieldOf(fields, "Architecture")
		if index[arch] == nil {
			index[arch] = &strings.Builder{}
		}
		name := "pool/main/i/ingot/" + f.name
		about, description, _ := strings.Cut(fields, "\nDescription: ")
		fmt.Fprintf(index[arch], "%s\nFilename: %s\nSize: %d\nSHA256: %s\nDescription: %s\n", about, name, f.size, f.sum,
			description)
		all = append(all, file{"apt/" + name, 0o644, f.data})
	}
	var lists []file
	var arches []string
	for arch, text := range index {
		arches = append(arches, arch)
		compressed, err := gzipped([]byte(text.String()))
		if err != nil {
			return nil, err
		}
		folder := "main/binary-" + arch + "/"
		lists = append(lists, file{folder + "Packages", 0o644, []byte(text.String())},
			file{folder + "Packages.gz", 0o644, compressed})
	}
	slices.Sort(arches)
	slices.SortFunc(lists, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var release strings.Builder
	fmt.Fprintf(&release, "Origin: Ingot\nLabel: Ingot\nSuite: stable\nCodename: stable\nVersion: %s\nDate: %s\n"+
		"Architectures: %s\nComponents: main\nDescription: Ingot %s\nSHA256:\n", p.version,
		p.epoch.Format("Mon, 02 Jan 2006 15:04:05 UTC"), strings.Join(arches, " "), p.version)
	for _, f := range lists {
		fmt.Fprintf(&release, " %x %d %s\n", sha256.Sum256(f.data), len(f.data), f.name)
		all = append(all, file{"apt/dists/stable/" + f.name, 0o644, f.data})
	}
	text := []byte(release.String())
	all = append(all, file{"apt/dists/stable/Release", 0o644, text})
	trust := "Trusted: yes\n"
	if p.key != nil {
		trust = "Signed-By: /usr/share/keyrings/" + keyName + ".gpg\n"
		clear, err := p.key.clear(text)
		if err != nil {
			return nil, err
		}
		signature, err := p.key.armored(text)
		if err != nil {
			return nil, err
		}
		all = append(all, file{"apt/dists/stable/InRelease", 0o644, clear},
			file{"apt/dists/stable/Release.gpg", 0o644, signature})
	}
	return append(all, file{"apt/ingot.sources", 0o644, []byte("Types: deb\nURIs: " + p.url + "/apt\n" +
		"Suites: stable\nComponents: main\n" + trust)}), nil
}

// debControl returns the control file of a Debian package.
func debControl(archive []byte) (string, error) {
	const magic, size = "!<arch>\n", 60
	if !bytes.HasPrefix(archive, []byte(magic)) {
		return "", errors.New("not a Debian package")
	}
	for rest := archive[len(magic):]; len(rest) >= size; {
		length, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil || length < 0 || length > len(rest)-size {
			return "", errors.New("damaged Debian package")
		}
		if member := rest[size : size+length]; strings.HasPrefix(string(rest), "control.tar.gz ") {
			return tarMember(member, "./control")
		}
		rest = rest[min(len(rest), size+length+length%2):]
	}
	return "", errors.New("the package has no control.tar.gz")
}

// tarMember returns a file of a compressed tar archive, without white space around it.
func tarMember(archive []byte, name string) (string, error) {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return "", err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if h.Name == name {
			text, err := io.ReadAll(io.LimitReader(r, 1<<20))
			return strings.TrimSpace(string(text)), err
		}
	}
}

// fieldOf returns a field of a control file, or "".
func fieldOf(fields, name string) string {
	for line := range strings.Lines(fields) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

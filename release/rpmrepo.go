package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"path"
	"strings"
)

// The documents of an rpm repository, as createrepo_c writes them.
type (
	rpmVersion struct {
		Epoch   string `xml:"epoch,attr"`
		Version string `xml:"ver,attr"`
		Release string `xml:"rel,attr"`
	}
	rpmChecksum struct {
		Type  string `xml:"type,attr"`
		PkgID string `xml:"pkgid,attr,omitempty"`
		Sum   string `xml:",chardata"`
	}
	rpmEntry struct {
		Name  string `xml:"name,attr"`
		Flags string `xml:"flags,attr,omitempty"`
		Epoch string `xml:"epoch,attr,omitempty"`
		Ver   string `xml:"ver,attr,omitempty"`
		Rel   string `xml:"rel,attr,omitempty"`
	}
	rpmEntries struct {
		Entries []rpmEntry `xml:"rpm:entry"`
	}
	rpmPrimary struct {
		XMLName     xml.Name    `xml:"package"`
		Type        string      `xml:"type,attr"`
		Name        string      `xml:"name"`
		Arch        string      `xml:"arch"`
		Version     rpmVersion  `xml:"version"`
		Checksum    rpmChecksum `xml:"checksum"`
		Summary     string      `xml:"summary"`
		Description string      `xml:"description"`
		Packager    string      `xml:"packager"`
		URL         string      `xml:"url"`
		Time        struct {
			File  int `xml:"file,attr"`
			Build int `xml:"build,attr"`
		} `xml:"time"`
		Size struct {
			Package   int `xml:"package,attr"`
			Installed int `xml:"installed,attr"`
			Archive   int `xml:"archive,attr"`
		} `xml:"size"`
		Location struct {
			Href string `xml:"href,attr"`
		} `xml:"location"`
		Format struct {
			License   string `xml:"rpm:license"`
			Group     string `xml:"rpm:group"`
			BuildHost string `xml:"rpm:buildhost"`
			SourceRPM string `xml:"rpm:sourcerpm"`
			Range     struct {
				Start int `xml:"start,attr"`
				End   int `xml:"end,attr"`
			} `xml:"rpm:header-range"`
			Provides   rpmEntries `xml:"rpm:provides"`
			Requires   rpmEntries `xml:"rpm:requires"`
			Recommends rpmEntries `xml:"rpm:recommends"`
			Files      []rpmFile  `xml:"file"`
		} `xml:"format"`
	}
	// rpmListed is a package in the lists of files and of changes; the latter are empty.
	rpmListed struct {
		XMLName xml.Name   `xml:"package"`
		PkgID   string     `xml:"pkgid,attr"`
		Name    string     `xml:"name,attr"`
		Arch    string     `xml:"arch,attr"`
		Version rpmVersion `xml:"version"`
		Files   []rpmFile  `xml:"file"`
	}
)

// rpmRepository returns the files of an rpm repository with the rpm packages of a release.
func (p *publication) rpmRepository() ([]file, error) {
	var all []file
	var primary []rpmPrimary
	var lists, others []rpmListed
	for _, f := range p.artefacts {
		if path.Ext(f.name) != ".rpm" {
			continue
		}
		h, err := readRPM(f.data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		files, err := h.files()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		about := rpmAbout(h, f, files, int(p.epoch.Unix()))
		primary = append(primary, about)
		listed := rpmListed{PkgID: about.Checksum.Sum, Name: about.Name, Arch: about.Arch, Version: about.Version}
		others = append(others, listed)
		listed.Files = files
		lists = append(lists, listed)
		all = append(all, file{"rpm/" + about.Location.Href, 0o644, f.data})
	}
	documents := []struct {
		kind, open string
		packages   any
	}{
		{"primary", `<metadata xmlns="http://linux.duke.edu/metadata/common" ` +
			`xmlns:rpm="http://linux.duke.edu/metadata/rpm" packages="%d">`, primary},
		{"filelists", `<filelists xmlns="http://linux.duke.edu/metadata/filelists" packages="%d">`, lists},
		{"other", `<otherdata xmlns="http://linux.duke.edu/metadata/other" packages="%d">`, others},
	}
	when := p.epoch.Unix()
	var md strings.Builder
	md.WriteString(xml.Header + `<repomd xmlns="http://linux.duke.edu/metadata/repo">` + "\n")
	fmt.Fprintf(&md, "<revision>%d</revision>\n", when)
	for _, d := range documents {
		name, _, _ := strings.Cut(strings.TrimPrefix(d.open, "<"), " ")
		text := bytes.NewBufferString(xml.Header + fmt.Sprintf(d.open, len(primary)) + "\n")
		if err := xml.NewEncoder(text).Encode(d.packages); err != nil {
			return nil, err
		}
		fmt.Fprintf(text, "\n</%s>\n", name)
		compressed, err := gzipped(text.Bytes())
		if err != nil {
			return nil, err
		}
		// The checksum in the name lets caches and mirrors keep the documents of two releases apart.
		href := fmt.Sprintf("repodata/%x-%s.xml.gz", sha256.Sum256(compressed), d.kind)
		fmt.Fprintf(&md, `<data type="%s"><checksum type="sha256">%x</checksum><open-checksum type="sha256">%x</open-checksum>`+
			`<location href="%s"/><timestamp>%d</timestamp><size>%d</size><open-size>%d</open-size></data>`+"\n", d.kind,
			sha256.Sum256(compressed), sha256.Sum256(text.Bytes()), href, when, len(compressed), text.Len())
		all = append(all, file{"rpm/" + href, 0o644, compressed})
	}
	md.WriteString("</repomd>\n")
	all = append(all, file{"rpm/repodata/repomd.xml", 0o644, []byte(md.String())})
	check := "gpgcheck=0\nrepo_gpgcheck=0\n"
	if p.key != nil {
		check = "gpgcheck=1\nrepo_gpgcheck=1\ngpgkey=" + p.url + "/" + keyName + ".asc\n"
		signature, err := p.key.armored([]byte(md.String()))
		if err != nil {
			return nil, err
		}
		all = append(all, file{"rpm/repodata/repomd.xml.asc", 0o644, signature})
	}
	return append(all, file{"rpm/ingot.repo", 0o644, []byte("[ingot]\nname=Ingot\nbaseurl=" + p.url +
		"/rpm\nenabled=1\n" + check)}), nil
}

// rpmAbout describes a package.
func rpmAbout(h *rpmHeader, f artefact, files []rpmFile, when int) rpmPrimary {
	number := func(tag uint32) int {
		if all := h.numbers(tag); len(all) > 0 {
			return all[0]
		}
		return 0
	}
	about := rpmPrimary{
		Type: "rpm", Name: h.text(rpmTagName), Arch: h.text(rpmTagArch),
		Version:  rpmVersion{"0", h.text(rpmTagVersion), h.text(rpmTagRelease)},
		Checksum: rpmChecksum{"sha256", "YES", f.sum},
		Summary:  h.text(rpmTagSummary), Description: h.text(rpmTagDescription), Packager: h.text(rpmTagPackager),
	}
	about.Time.File, about.Time.Build = when, number(rpmTagBuildTime)
	about.Size.Package, about.Size.Installed, about.Size.Archive = len(f.data), number(rpmTagSize), number(rpmTagSize)
	about.Location.Href = "Packages/" + f.name
	about.Format.License, about.Format.Group = h.text(rpmTagLicense), "Unspecified"
	about.Format.BuildHost, about.Format.SourceRPM = h.text(rpmTagBuildHost), h.text(rpmTagSourceRPM)
	about.Format.Range.Start, about.Format.Range.End = h.start, h.end
	for _, name := range h.strings(rpmTagProvides) {
		about.Format.Provides.Entries = append(about.Format.Provides.Entries, rpmEntry{
			name, "EQ", "0", about.Version.Version, about.Version.Release,
		})
	}
	for _, name := range h.strings(rpmTagRequires) {
		about.Format.Requires.Entries = append(about.Format.Requires.Entries, rpmEntry{Name: name})
	}
	for _, name := range h.strings(rpmTagRecommends) {
		about.Format.Recommends.Entries = append(about.Format.Recommends.Entries, rpmEntry{Name: name})
	}
	for _, file := range files { // what other packages may require; the list of files has all
		if strings.HasPrefix(file.Name, "/etc/") || strings.HasPrefix(file.Name, "/usr/bin/") {
			about.Format.Files = append(about.Format.Files, file)
		}
	}
	return about
}

package main

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/rpmpack"
)

// rpmArch returns an architecture by rpm's name.
func rpmArch(arch string) string {
	return map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
}

// rpmScripts are the maintainer scripts of the Debian package, each after a line that
// turns the count of packages, which rpm passes, into dpkg's words.
var rpmScripts = struct{ post, preun, postun string }{
	`if [ "$1" -gt 1 ]; then set -- configure previous; else set -- configure; fi` + "\n" + postinst,
	`if [ "$1" = 0 ]; then set -- remove; else set -- upgrade; fi` + "\n" + prerm,
	`if [ "$1" = 0 ]; then set -- purge; else set -- upgrade; fi` + "\n" + postrm,
}

// rpm returns a package for Fedora, RHEL, openSUSE and others, with the files of the
// Debian package. The key may be nil.
func rpm(version, arch string, all []file, when time.Time, key *signer) ([]byte, error) {
	files, err := debFiles(all)
	if err != nil {
		return nil, err
	}
	p, err := rpmpack.NewRPM(rpmpack.RPMMetaData{
		Name: "ingot", Version: version, Release: "1", Arch: rpmArch(arch),
		Summary: fieldOf(control, "Description"), Description: description(),
		Licence: "Apache-2.0", Packager: fieldOf(control, "Maintainer"), BuildHost: "localhost", BuildTime: when,
		Compressor: "gzip:6", Epoch: rpmpack.NoEpoch,
		Requires: relations(fieldOf(control, "Depends")), Recommends: relations(fieldOf(control, "Recommends")),
	})
	if err != nil {
		return nil, err
	}
	if key != nil {
		p.SetPGPSigner(key.detached)
	}
	p.AddPostin(unitNames(rpmScripts.post, all))
	p.AddPreun(unitNames(rpmScripts.preun, all))
	p.AddPostun(unitNames(rpmScripts.postun, all))
	own := map[string]bool{} // directories of the package alone, which go with it
	for _, f := range files {
		name := "/" + strings.Replace(f.name, "zsh/vendor-completions", "zsh/site-functions", 1)
		kind := rpmpack.GenericFile
		switch {
		case strings.HasPrefix(name, "/etc/"):
			kind = rpmpack.ConfigFile | rpmpack.NoReplaceFile
		case strings.HasPrefix(name, "/"+docDir), strings.HasPrefix(name, "/usr/share/man/"):
			kind = rpmpack.DocFile
		}
		p.AddFile(rpmpack.RPMFile{
			Name: name, Body: f.data, Mode: uint(f.mode.Perm()), Owner: "root", Group: "root",
			MTime: uint32(when.Unix()), Type: kind, //nolint:gosec // the format has 32 bits
		})
		for dir := path.Dir(name); strings.Contains(dir+"/", "/ingot/"); dir = path.Dir(dir) {
			own[dir] = true
		}
	}
	for dir := range own {
		p.AddFile(rpmpack.RPMFile{
			Name: dir, Mode: 0o40755, Owner: "root", Group: "root",
			MTime: uint32(when.Unix()), //nolint:gosec // the format has 32 bits
		})
	}
	var b bytes.Buffer
	err = p.Write(&b)
	return b.Bytes(), err
}

// description returns the long description of the Debian package, without its marks.
func description() string {
	_, text, _ := strings.Cut(control, "\nDescription: ")
	lines := strings.Split(strings.TrimSpace(text), "\n")[1:]
	for i, line := range lines {
		if lines[i] = strings.TrimPrefix(line, " "); lines[i] == "." {
			lines[i] = ""
		}
	}
	return strings.Join(lines, "\n")
}

func relations(list string) rpmpack.Relations {
	var all rpmpack.Relations
	for name := range strings.SplitSeq(list, ", ") {
		// The names are rpm's as well, except for this one.
		if name == "git" {
			name = "git-core"
		}
		all = append(all, &rpmpack.Relation{Name: name})
	}
	return all
}

// unitNames returns a maintainer script with the units of systemd in place of UNITS.
func unitNames(script string, all []file) string {
	var names []string
	for _, u := range units(all) {
		names = append(names, path.Base(u.name))
	}
	slices.Sort(names)
	return strings.ReplaceAll(script, "UNITS", strings.Join(names, " "))
}

// rpmName returns the file name of a package.
func rpmName(version, arch string) string {
	return fmt.Sprintf("ingot-%s-1.%s.rpm", version, rpmArch(arch))
}

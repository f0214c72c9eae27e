package main

import (
	"bytes"
	"crypto/md5" //nolint:gosec // dpkg's format
	_ "embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The files of the package beside the programs. The maintainer scripts run with the
// names of the units in place of UNITS.
var (
	//go:embed debian/control
	control string
	//go:embed debian/copyright
	copyright []byte
	//go:embed debian/postinst
	postinst string
	//go:embed debian/prerm
	prerm string
	//go:embed debian/postrm
	postrm string
)

// deb returns a Debian package: an ar archive with two compressed tar archives. Writing
// it here, and not with dpkg-deb, makes the result independent of the machine, and
// packages can be built on any system.
func deb(version, arch string, all []file, when time.Time) ([]byte, error) {
	files, err := debFiles(all)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var size int64
	var sums, conffiles strings.Builder
	for _, f := range files {
		size += (int64(len(f.data)) + 1023) / 1024
		if strings.HasPrefix(f.name, "etc/") {
			fmt.Fprintf(&conffiles, "/%s\n", f.name)
		} else {
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.data), f.name) //nolint:gosec // dpkg's format
		}
	}
	script := func(text string) []byte { return []byte(unitNames(text, all)) }
	about := strings.NewReplacer("VERSION", version, "ARCH", arch, "SIZE", fmt.Sprint(size)).Replace(control)
	controlTar, err := tarGz("./", []file{
		{"control", 0o644, []byte(about)}, {"md5sums", 0o644, []byte(sums.String())},
		{"conffiles", 0o644, []byte(conffiles.String())},
		{"postinst", 0o755, script(postinst)}, {"prerm", 0o755, script(prerm)}, {"postrm", 0o755, script(postrm)},
	}, when)
	if err != nil {
		return nil, err
	}
	data, err := tarGz("./", files, when)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, member := range []file{{name: "debian-binary", data: []byte("2.0\n")},
		{name: "control.tar.gz", data: controlTar}, {name: "data.tar.gz", data: data}} {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", member.name, when.Unix(), 0, 0, "100644", len(member.data))
		b.Write(member.data)
		if len(member.data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes(), nil
}

const docDir = "usr/share/doc/ingot/"

// debFiles returns the files where Debian expects them.
func debFiles(all []file) ([]file, error) {
	var out []file
	put := func(f file, name string) {
		f.name = name
		out = append(out, f)
	}
	zip := func(f file, name string) error {
		var err error
		f.data, err = gzipped(f.data)
		put(f, name+".gz")
		return err
	}
	completions := map[string]string{
		"ingot.bash": "usr/share/bash-completion/completions/ingot",
		"_ingot":     "usr/share/zsh/vendor-completions/_ingot",
		"ingot.fish": "usr/share/fish/vendor_completions.d/ingot.fish",
	}
	for _, f := range all {
		base := path.Base(f.name)
		var err error
		switch dir := path.Dir(f.name); {
		case f.name == programs[0]:
			put(f, "usr/bin/ingot")
		case slices.Contains(programs, f.name):
			put(f, "usr/lib/ingot/"+f.name)
		case dir == "man":
			err = zip(f, "usr/share/man/man1/"+base)
		case dir == "completions":
			put(f, completions[base])
		case dir == "packaging" && isUnit(base):
			put(f, "usr/lib/systemd/system/"+base)
		case f.name == "packaging/default":
			f.mode = 0o640 // it may have passwords
			put(f, "etc/default/ingot")
		case f.name == "packaging/needrestart.conf":
			put(f, "etc/needrestart/conf.d/ingot.conf")
		case strings.HasPrefix(f.name, "packaging/"):
			put(f, "usr/share/ingot/"+strings.TrimPrefix(f.name, "packaging/"))
		case f.name == "CHANGELOG.md":
			err = zip(f, docDir+"changelog")
		case f.name == "LICENSE": // in the file copyright
		default:
			put(f, docDir+f.name)
		}
		if err != nil {
			return nil, err
		}
	}
	put(file{mode: 0o644, data: copyright}, docDir+"copyright")
	return out, nil
}

var development = regexp.MustCompile(`^([^-]+)-dev(\+(.*))?$`)

// debVersion returns a version in Debian's order, where ~ sorts before the release. The
// date sorts development builds, which the name of a commit would not.
func debVersion(version string, when time.Time) string {
	m := development.FindStringSubmatch(version)
	if m == nil {
		return strings.Replace(version, "-", "~", 1)
	}
	out := m[1] + "~dev+" + when.Format("20060102.150405")
	if m[3] != "" {
		out += "." + m[3]
	}
	return out
}

package platform

import (
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// IsURL reports whether a buildpack is named by where it is.
func IsURL(name string) bool { return strings.Contains(name, "://") }

// IsJava reports whether a name or a URL is that of the Java buildpack.
func IsJava(name string) bool {
	name, _, _ = strings.Cut(strings.ToLower(name), "#")
	name = strings.TrimSuffix(strings.TrimSuffix(path.Base(name), ".git"), ".zip")
	name = strings.ReplaceAll(name, "-", "_")
	return strings.HasPrefix(name, "java_buildpack")
}

// Redacted returns a URL without its credentials.
func Redacted(name string) string {
	u, err := url.Parse(name)
	if err != nil {
		return "(an address that cannot be read)"
	}
	u.User = nil
	return u.String()
}

// CustomBuildpack returns the first of an app's buildpacks that does not come with
// Ingot, as it is shown: one given by its URL, or one of the installed that an
// administrator uploaded, also in place of a bundled one. It returns "" if there is
// none.
func CustomBuildpack(names []string, stack string, installed []*Buildpack) string {
	for _, name := range names {
		if IsURL(name) {
			return Redacted(name)
		}
		for _, b := range installed {
			if b.Name == name && !b.Bundled && (b.Stack == "" || b.Stack == stack) {
				return name
			}
		}
	}
	return ""
}

// SidecarWarning returns a warning that names the sidecars without memory of an
// app with a custom buildpack (see CustomBuildpack), "" if there is none. Memory is
// required then: whether the app leaves any to its sidecars is not known here.
// Java apps, and those of buildpacks that say that they need it, are refused by
// package staging instead.
func SidecarWarning(buildpacks []string, custom string, sidecars []Sidecar) string {
	if custom == "" || slices.ContainsFunc(buildpacks, IsJava) {
		return ""
	}
	var names []string
	for _, s := range sidecars {
		if s.MemoryMB <= 0 {
			names = append(names, strconv.Quote(s.Name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	noun, has := "sidecar", "has"
	if len(names) > 1 {
		noun, has = "sidecars", "have"
	}
	return "The " + noun + " " + strings.Join(names, ", ") + " " + has +
		" no memory, which is required with a custom buildpack (" + custom + "): " +
		"the app may take all the memory of its instance and leave none. " +
		"Set `memory` of each sidecar (memory: 64MB in the manifest, memory_in_mb in the API) and push again."
}

// WithoutPasswords shows buildpacks: addresses may carry credentials, and more
// people see an app than may use them.
func WithoutPasswords(buildpacks []string) []string {
	out := make([]string, 0, len(buildpacks))
	for _, b := range buildpacks {
		if u, err := url.Parse(b); err == nil && u.User != nil {
			u.User = url.User("***")
			b = u.String()
		}
		out = append(out, b)
	}
	return out
}

package distro

import (
	"os"
	"slices"
	"strings"
	"sync"
)

// A manager is the package manager of some distributions.
type manager struct {
	ids     []string // ID or ID_LIKE of /etc/os-release
	command string   // installs the packages that follow
}

// managers are in the order of the columns of packageNames.
var managers = [...]manager{
	{[]string{"debian", "ubuntu"}, "apt-get install"},
	{[]string{"fedora", "rhel", "centos"}, "dnf install"},
	{[]string{"alpine"}, "apk add"},
	{[]string{"arch"}, "pacman -S"},
	{[]string{"suse", "opensuse", "sles"}, "zypper install"},
}

// packageNames are the packages that contain a program, by manager; "" where there is none.
// The names of dnf for Java are those that every version provides.
var packageNames = map[string][len(managers)]string{
	"runc":         {"runc", "runc", "runc", "runc", "runc"},
	"mkfs.ext4":    {"e2fsprogs", "e2fsprogs", "e2fsprogs", "e2fsprogs", "e2fsprogs"},
	"git":          {"git", "git-core", "git", "git", "git-core"},
	"postgres":     {"postgresql", "postgresql-server", "postgresql", "postgresql", "postgresql-server"},
	"mariadbd":     {"mariadb-server", "mariadb-server", "mariadb", "mariadb", "mariadb"},
	"redis-server": {"redis-server", "redis", "redis", "redis", "redis"},
	"node":         {"nodejs", "nodejs", "nodejs", "nodejs", "nodejs-default"},
	"npm":          {"npm", "npm", "npm", "npm", "npm-default"},
	"python3":      {"python3", "python3", "python3", "python", "python3"},
	"pip3":         {"python3-pip", "python3-pip", "py3-pip", "python-pip", "python3-pip"},
	"go":           {"golang-go", "golang", "go", "go", "go"},
	"ruby":         {"ruby-full", "ruby-devel", "ruby-full", "ruby", "ruby-devel"},
	"bundle":       {"bundler", "rubygem-bundler", "ruby-bundler", "ruby-bundler", "ruby-devel"},
	"php": {"php-cli php-mbstring php-xml php-curl", "php-cli php-mbstring php-xml",
		"php84 php84-mbstring php84-xml php84-curl", "php", "php8-cli php8-mbstring php8-curl"},
	"composer": {"composer", "composer", "composer", "composer", "php-composer2"},
	"java": {"default-jre-headless", "java-headless", "openjdk21-jre-headless", "jre-openjdk-headless",
		"java-21-openjdk-headless"},
	"javac":       {"default-jdk-headless", "java-devel", "openjdk21-jdk", "jdk-openjdk", "java-21-openjdk-devel"},
	"catalina.sh": {"tomcat10-common", "tomcat", "", "tomcat10", "tomcat"},
	"nginx":       {"nginx", "nginx", "nginx", "nginx", "nginx"},
	"newuidmap":   {"uidmap", "shadow-utils", "shadow-uidmap", "shadow", "shadow"},
	"newgidmap":   {"uidmap", "shadow-utils", "shadow-uidmap", "shadow", "shadow"},
	"pasta":       {"passt", "passt", "passt", "passt", "passt"},
	"slirp4netns": {"slirp4netns", "slirp4netns", "slirp4netns", "slirp4netns", "slirp4netns"},
	"nsenter":     {"util-linux", "util-linux", "util-linux-misc", "util-linux", "util-linux"},
	"zoneinfo":    {"tzdata", "tzdata", "tzdata", "tzdata", "timezone"},
}

// thisSystem is the content of this machine's os-release file.
var thisSystem = sync.OnceValue(func() string {
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if text, err := os.ReadFile(path); err == nil {
			return string(text)
		}
	}
	return ""
})

// Install returns the command that installs programs on this machine, or says that there is none.
func Install(programs ...string) string { return installOn(thisSystem(), programs) }

// installOn is Install for the system that the text of an os-release file describes.
func installOn(release string, programs []string) string {
	i, known := managerOf(release)
	var names []string
	for _, program := range programs {
		name := packageNames[program][i]
		if name == "" {
			return "this distribution has no package with " + program
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	command := managers[i].command + " " + strings.Join(names, " ")
	if !known {
		return "install it with the package manager of this system (on Debian: " + command + ")"
	}
	return command
}

// managerOf returns the number of a system's manager; Debian's if it is not known.
func managerOf(release string) (i int, known bool) {
	for _, id := range append(releaseField(release, "ID"), releaseField(release, "ID_LIKE")...) {
		i := slices.IndexFunc(managers[:], func(m manager) bool {
			// openSUSE has opensuse-leap, opensuse-tumbleweed and more.
			return slices.ContainsFunc(m.ids, func(name string) bool { return id == name || strings.HasPrefix(id, name+"-") })
		})
		if i >= 0 {
			return i, true
		}
	}
	return 0, false
}

// releaseField returns the words of a field.
func releaseField(release, name string) []string {
	for line := range strings.Lines(release) {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.Fields(strings.Trim(strings.TrimSpace(value), `"'`))
		}
	}
	return nil
}

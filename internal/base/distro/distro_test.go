package distro

import (
	"strings"
	"testing"
)

// The command is that of the distribution.
func TestInstall(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, release, program, want string }{
		{"Debian", "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n", "node", "apt-get install nodejs"},
		{"Ubuntu", "ID=ubuntu\nID_LIKE=debian\n", "catalina.sh", "apt-get install tomcat10-common"},
		{"Mint", "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "go", "apt-get install golang-go"},
		{"Fedora", "NAME=\"Fedora Linux\"\nID=fedora\n", "java", "dnf install java-headless"},
		{"Rocky", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "postgres", "dnf install postgresql-server"},
		{"Amazon", "ID=\"amzn\"\nID_LIKE='fedora'\n", "runc", "dnf install runc"},
		{"Alpine", "ID=alpine\n", "pip3", "apk add py3-pip"},
		{"Alpine", "ID=alpine\n", "catalina.sh", "this distribution has no package with catalina.sh"},
		{"Arch", "ID=arch\n", "python3", "pacman -S python"},
		{"Manjaro", "ID=manjaro\nID_LIKE=arch\n", "javac", "pacman -S jdk-openjdk"},
		{"Leap", "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", "composer", "zypper install php-composer2"},
		{"other", "ID=nixos\n", "node",
			"install it with the package manager of this system (on Debian: apt-get install nodejs)"},
		{"several", "ID=debian\n", "newuidmap newgidmap pasta", "apt-get install uidmap passt"},
		{"several", "ID=fedora\n", "newuidmap newgidmap runc", "dnf install shadow-utils runc"},
		{"none", "", "runc", "install it with the package manager of this system (on Debian: apt-get install runc)"},
	} {
		if got := installOn(tt.release, strings.Fields(tt.program)); got != tt.want {
			t.Errorf("%s, %s: %q, want %q", tt.name, tt.program, got, tt.want)
		}
	}
	for name := range packageNames {
		if packageNames[name][0] == "" {
			t.Errorf("no package of Debian for %s", name)
		}
	}
}

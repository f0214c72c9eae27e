package actions

import (
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// ImagePorts returns the ports of routes without one, for those of the destinations' apps
// that are container images, by the guid of the app.
func ImagePorts(tx platform.Tx, destinations []*platform.Destination) (map[string]int, error) {
	var guids []string
	for _, d := range destinations {
		if d.Port == 0 {
			guids = append(guids, d.AppGUID)
		}
	}
	if len(guids) == 0 {
		return nil, nil
	}
	apps, _, err := tx.Apps().List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guids), platform.In("lifecycle_type", platform.LifecycleDocker)}})
	if err != nil {
		return nil, err
	}
	ports := map[string]int{}
	for _, app := range apps {
		d, err := tx.Droplets().Get(app.DropletGUID)
		if fault.Is(err, fault.NotFound) {
			continue // not staged yet
		}
		if err != nil {
			return nil, err
		}
		ports[app.GUID] = d.Container.Port()
	}
	return ports, nil
}

const (
	longestImage    = 4096
	longestUsername = 1024
	longestPassword = 16 << 10 // tokens of cloud registries have several kB
)

// checkImage checks the image of a package. Whether it exists is known when it is staged.
func checkImage(pkg *platform.Package) error {
	switch {
	case pkg.Image == "":
		return fault.Invalid("Data Image required")
	case len(pkg.Image) > longestImage || strings.ContainsFunc(pkg.Image, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fault.Invalid("Data Image must be the name of an image, such as registry.example.com/shop:1.2, of at most 4096 characters")
	case len(pkg.Username) > longestUsername || strings.ContainsAny(pkg.Username, "\x00\r\n"):
		return fault.Invalid("Data Username must be at most 1024 characters in one line")
	case len(pkg.Password) > longestPassword || strings.ContainsRune(pkg.Password, 0):
		return fault.Invalid("Data Password must be at most 16384 characters")
	}
	return nil
}

package platform

import "strings"

// Lifecycles of apps.
const (
	LifecycleBuildpack = "buildpack"
	LifecycleDocker    = "docker"
)

// Types of packages.
const (
	PackageBits   = "bits"
	PackageDocker = "docker"
)

// ImageSource is where an image comes from, with the credentials of the registry.
type ImageSource struct {
	Reference string // as the user wrote it
	Username  string
	Password  string
}

// Image is a container image that a droplet runs.
type Image struct {
	// Repository is the registry and the name in it; Digest identifies the image there.
	Repository string `json:"repository"`
	Digest     string `json:"digest"`
	// Layers are the file system, the lowest first.
	Layers     []ImageLayer `json:"layers,omitempty"`
	Entrypoint []string     `json:"entrypoint,omitempty"`
	Command    []string     `json:"command,omitempty"`
	Env        []string     `json:"env,omitempty"` // as NAME=value
	Dir        string       `json:"dir,omitempty"`
	User       string       `json:"user,omitempty"`
	Ports      []int        `json:"ports,omitempty"` // TCP ports, ascending
	// Account is that of User in the image, if the engine needs it and found it out.
	Account *ImageAccount `json:"account,omitempty"`
}

// ImageAccount is an account of an image: its numbers there, and its home directory.
type ImageAccount struct {
	User  int    `json:"user"`
	Group int    `json:"group"`
	Home  string `json:"home"`
}

// Reference returns the name by which others than this program find the image.
func (i *Image) Reference() string { return i.Repository + "@" + i.Digest }

// ImageLayer is a layer of an image: a compressed archive in the registry.
type ImageLayer struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// ImageLayerKey begins the keys of unpacked layers.
const ImageLayerKey = "image-"

// Key identifies the unpacked layer. The digest is that of the compressed archive,
// which is verified while it is read, unlike what an image says about its content.
func (l ImageLayer) Key() string { return ImageLayerKey + l.Digest }

// Args returns the program of the image with its arguments.
func (i *Image) Args() []string {
	return append(append([]string{}, i.Entrypoint...), i.Command...)
}

// Port returns the port that requests go to unless their route has another: the
// first that the image exposes.
func (i *Image) Port() int {
	if i == nil || len(i.Ports) == 0 {
		return DefaultPort
	}
	return i.Ports[0]
}

// Size returns the size of the compressed layers.
func (i *Image) Size() (sum int64) {
	for _, l := range i.Layers {
		sum += l.Size
	}
	return sum
}

// Source returns where the image of a droplet comes from.
func (d *Droplet) Source() ImageSource {
	reference, _, _ := strings.Cut(d.Image, "@")
	return ImageSource{Reference: reference, Username: d.ImageUsername, Password: d.ImagePassword}
}

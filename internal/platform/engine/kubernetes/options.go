package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ingot/internal/base/pattern"
	"ingot/internal/platform/engine/agent"
)

// Config is what an operator configures, each value by the flag --kubernetes-NAME.
type Config struct {
	// Namespace is where the Pods of apps run.
	Namespace string
	// Image is the stack image of Pods, normally by digest.
	Image string
	// Kubeconfig is a file; empty means the service account of the Pod that this program
	// runs in.
	Kubeconfig string
	// UserNamespaces is auto, on or off. With auto a trial finds out whether the cluster has
	// them; with on no instance is started without.
	UserNamespaces string
	// CPULimit also limits the processor time of an instance to its share; otherwise only
	// requests are set.
	CPULimit bool
	// Rate is how many Pods are created in a second.
	Rate int
	// PlaceTimeout is how long the cluster may take to find a node, for example by adding
	// one.
	PlaceTimeout time.Duration
	// DiskClass is the storage class of the volumes of instances; empty means a directory
	// on the node's disk, whose limit is checked only from time to time.
	DiskClass string
	// PriorityClass is the priority class of Pods; empty means the cluster's default.
	PriorityClass string
}

// The values of UserNamespaces.
const (
	UserNamespacesAuto = "auto"
	UserNamespacesOn   = "on"
	UserNamespacesOff  = "off"
)

// DefaultConfig returns the defaults. There is none for the image.
func DefaultConfig() Config {
	return Config{Namespace: "ingot-apps", UserNamespaces: UserNamespacesAuto, Rate: 60, PlaceTimeout: time.Minute}
}

var dnsName = pattern.OnUse(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Validate returns the name of the first invalid flag and what is wrong with its value.
func (c Config) Validate() (flag string, err error) {
	switch {
	case !dnsName().MatchString(c.Namespace):
		return "kubernetes-namespace", fmt.Errorf("%q is not the name of a namespace", c.Namespace)
	case c.Image == "":
		return "kubernetes-image", errors.New(
			"a value is needed: the stack image, for example registry.example.com/ingot/stack@sha256:…")
	case c.UserNamespaces != UserNamespacesAuto && c.UserNamespaces != UserNamespacesOn &&
		c.UserNamespaces != UserNamespacesOff:
		return "kubernetes-user-namespaces", fmt.Errorf("%q is not one of auto, on, off", c.UserNamespaces)
	case c.Rate < 1:
		return "kubernetes-rate", fmt.Errorf("%d is less than 1", c.Rate)
	case c.PlaceTimeout < time.Second:
		return "kubernetes-place-timeout", fmt.Errorf("%v is less than a second", c.PlaceTimeout)
	}
	return "", nil
}

// Options configure an engine.
type Options struct {
	Config
	// Authority issues the certificate of this server. Key is the key from which the seeds
	// of agents are derived. Both are the same for all servers of an installation. Older
	// are those before a rotation, newest first: Pods that were created with them have
	// them until their end.
	Authority *agent.Authority
	Key       []byte
	Older     []agent.Keys
	// Reload returns all keys, newest first, as another server may have changed them; nil
	// means that they never change.
	Reload func(context.Context) ([]agent.Keys, error)
	// Install is the name of the installation in the labels of Pods; empty means that it
	// follows from Key.
	Install string
	// Server is the name of this server in its certificate.
	Server string
	// Displaced is called when the cluster takes a Pod away or its node does not answer.
	// It must not block.
	Displaced func(id, reason string)
	Log       *slog.Logger

	// Home returns the home directory in a Pod; nil means /home/vcap. A cluster whose Pods
	// are processes has another for each.
	Home func(pod string) string
	// The times of a test; zero means the defaults.
	Silence    time.Duration // without an agent's sign of life until its instance is displaced
	ForceAfter time.Duration // until a Pod on an unreachable node is deleted by force
	PullTime   time.Duration // for the image of an app
}

// SFTPInside is the path of the sftp server in the stack image.
const SFTPInside = "/ingot/ingot-sftp"

const (
	initInside        = "/ingot/ingot-init"
	home              = "/home/vcap"
	defaultForceAfter = time.Minute
)

package rootless

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
)

// Variable is the environment variable that describes the namespaces to a process in them.
const Variable = "INGOT_ROOTLESS"

// Space describes the namespaces of a data directory.
type Space struct {
	// User and UID are those of the user, who is root inside.
	User string `json:"user"`
	UID  int    `json:"uid"`
	// IDs is the number of user and group ids inside, root included.
	IDs int `json:"ids"`
	// Holder is the process that keeps the namespaces, in the network of instances.
	Holder int `json:"holder"`
	// Inside means that this process is in the network of instances itself, as tests are.
	Inside bool `json:"inside,omitempty"`
	// Group is the control group that belongs to the user; those of instances are below it.
	Group string `json:"group"`
	// Data is the directory of containers. Every id inside can open what is in it, whatever the mode of
	// the user's home directory.
	Data string `json:"data"`
	// Dir is the working directory, which joining a mount namespace changes.
	Dir string `json:"dir"`
}

// Current returns the namespaces of this process; nil if it is not in such namespaces.
func Current() *Space {
	s, _ := current()
	return s
}

// Group returns the control group that belongs to the user of this process; "" if it is not in such namespaces.
func Group() string {
	if s := Current(); s != nil {
		return s.Group
	}
	return ""
}

// current reads the environment once: a process does not leave its user namespace.
var current = sync.OnceValues(func() (*Space, error) {
	text := os.Getenv(Variable)
	if text == "" {
		return nil, nil //nolint:nilnil // none
	}
	s := &Space{}
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return nil, fmt.Errorf("%s: %w", Variable, err)
	}
	return s, nil
})

// Encode returns the description as an environment variable.
func (s Space) Encode() (string, error) {
	b, err := json.Marshal(s)
	return Variable + "=" + string(b), err
}

// The ids inside: those of accounts of the machine come first, because database servers run as some of
// them; then those of instances; the last are those of single servers of services.
const (
	accounts = 1000
	servers  = 8192
)

// Fewest is the number of ids without which no instance can be started.
const Fewest = accounts + servers + 1000

// ForInstances returns the first id of instances, and the one after the last.
func (s *Space) ForInstances() (first, end uint32) {
	return accounts, uint32(s.IDs - servers) //nolint:gosec // at least Fewest
}

// ForServer returns the id of a server by its port.
func (s *Space) ForServer(port int) uint32 {
	return uint32(s.IDs - servers + port%servers) //nolint:gosec // at least Fewest
}

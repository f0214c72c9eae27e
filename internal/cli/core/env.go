package core

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"time"
)

// The exit codes.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
)

// Env is the client's environment; tests provide their own.
type Env struct {
	Program  string // name of the program: ingot or cf
	Args     []string
	Getenv   func(string) string
	Dir      string // the working directory
	In       io.Reader
	Out, Err io.Writer
	// Which of them are terminals.
	InTerminal, OutTerminal, ErrTerminal bool
	// Width returns the terminal's width in columns.
	Width func() int
	// Password reads a secret from the terminal without echo.
	Password func(context.Context) (string, error)
	// DataDir is the data directory of a server on this machine.
	DataDir string
	Now     func() time.Time
	// Others are the program's commands that are not part of the client.
	Others []Other
	// Version is the program's version, as shown by --version.
	Version string
	// Machine inspects this machine, or a cluster, for the command doctor.
	Machine func(context.Context, DoctorOptions) []Finding
}

// Colors reports whether the user wants colors on a terminal.
func (w *Env) Colors() bool { return w.Getenv("NO_COLOR") == "" && w.Draws() }

// Draws reports whether a terminal interprets escape sequences.
func (w *Env) Draws() bool { return w.Getenv("TERM") != "dumb" }

// Other is a command that is not part of the client.
type Other struct {
	Name, Summary string
	Flags         []string // with their dashes
	Sub           []Other
}

// ServerDir returns the data directory of a server on this machine, or "" if none can run here.
func (w *Env) ServerDir() string { return cmp.Or(w.Getenv("INGOT_DATA_DIR"), w.DataDir) }

// Path makes a path given by the user absolute.
func (w *Env) Path(p string) string {
	switch {
	case filepath.IsAbs(p):
		return filepath.Clean(p)
	case p != "" && os.IsPathSeparator(p[0]): // on Windows, where it is on the drive of the folder
		return filepath.Clean(filepath.VolumeName(w.Dir) + p)
	}
	return filepath.Join(w.Dir, p)
}

// Finding is the result of one check of doctor.
type Finding struct {
	Name string `json:"name"`
	// Found is what was found; it is empty when the thing is missing.
	Found string `json:"found,omitempty"`
	// State is one of the constants below.
	State string `json:"state"`
	// Get says how to install what is missing, or what its absence means.
	Get string `json:"get,omitempty"`
}

// The states of findings.
const (
	FindingOK      = "ok"
	FindingMissing = "missing"
	FindingNote    = "note"
	FindingWarn    = "warn" // of a cluster
	FindingFail    = "fail"
)

// DoctorOptions are the flags of doctor. Empty ones have the values of the environment
// variables of 'ingot up'.
type DoctorOptions struct {
	Engine         string `long:"engine" value-name:"ENGINE" description:"kubernetes: check a cluster instead of this machine, step by step, with Pods that are deleted afterwards"`
	Namespace      string `long:"kubernetes-namespace" value-name:"NAME" description:"Namespace of the Pods of apps"`
	Image          string `long:"kubernetes-image" value-name:"IMAGE" description:"Stack image of app instances"`
	Kubeconfig     string `long:"kubernetes-kubeconfig" value-name:"FILE" description:"Kubeconfig of the cluster (default: the service account of the Pod)"`
	UserNamespaces string `long:"kubernetes-user-namespaces" value-name:"auto|on|off" description:"User namespaces of Pods"`
	DatabaseURL    string `long:"database-url" value-name:"URL" description:"PostgreSQL of the servers"`
	BlobURL        string `long:"blob-url" value-name:"URL" description:"Bucket of the servers"`
}

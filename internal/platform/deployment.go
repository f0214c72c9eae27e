package platform

import "time"

// DeploymentStrategy is how a deployment replaces instances.
type DeploymentStrategy string

// The strategies of deployments.
const (
	StrategyRolling DeploymentStrategy = "rolling"
	StrategyCanary  DeploymentStrategy = "canary"
)

// DeploymentStatus reports whether a deployment is going on.
type DeploymentStatus string

// The statuses of a deployment.
const (
	DeploymentActive    DeploymentStatus = "ACTIVE"
	DeploymentFinalized DeploymentStatus = "FINALIZED"
)

// DeploymentReason explains the status of a deployment.
type DeploymentReason string

// The first three reasons belong to active deployments, the others to finalized
// ones.
const (
	ReasonDeploying  DeploymentReason = "DEPLOYING"
	ReasonPaused     DeploymentReason = "PAUSED"
	ReasonCanceling  DeploymentReason = "CANCELING"
	ReasonDeployed   DeploymentReason = "DEPLOYED"
	ReasonCanceled   DeploymentReason = "CANCELED"
	ReasonSuperseded DeploymentReason = "SUPERSEDED"
)

// Deployment replaces the instances of an app's web process bit by bit. From
// its beginning the process is what it shall become; what it was is in Before,
// for the instances that are not replaced yet and for the way back.
type Deployment struct {
	Resource
	Metadata
	AppGUID             string
	Strategy            DeploymentStrategy
	Status              DeploymentStatus
	Reason              DeploymentReason
	LastChange          time.Time
	DropletGUID         string
	PreviousDropletGUID string
	MaxInFlight         int
	Options             DeploymentOptions
	// Step is the step of a canary deployment, from 1 on. After the last one it
	// goes on like a rolling deployment.
	Step   int
	Before WebRun
	// LastHealthy is when an instance of the new version became ready at last.
	LastHealthy time.Time
	// Error is why it does not get on, for the user.
	Error string
}

// DeploymentOptions are what users may say about a deployment; nil leaves the
// process as it is.
type DeploymentOptions struct {
	WebInstances *int   `json:"web_instances,omitempty"`
	MemoryMB     *int   `json:"memory_in_mb,omitempty"`
	DiskMB       *int   `json:"disk_in_mb,omitempty"`
	LogRate      *int64 `json:"log_rate,omitempty"`
	// CanarySteps are percentages of the instances.
	CanarySteps []int `json:"canary_steps,omitempty"`
}

// WebRun is what a deployment changes of the web process.
type WebRun struct {
	Version     string `json:"version"`
	DropletGUID string `json:"droplet_guid"`
	Instances   int    `json:"instances"`
	MemoryMB    int    `json:"memory_mb"`
	DiskMB      int    `json:"disk_mb"`
	LogRate     int64  `json:"log_rate"`
}

// WebRunOf is that of a process.
func WebRunOf(p *Process) WebRun {
	return WebRun{p.Version, p.DropletGUID, p.Instances, p.MemoryMB, p.DiskMB, p.LogRate}
}

// Apply makes a process what it was.
func (r WebRun) Apply(p *Process) {
	p.Version, p.DropletGUID, p.Instances, p.MemoryMB, p.DiskMB, p.LogRate = r.Version, r.DropletGUID, r.Instances, r.MemoryMB, r.DiskMB, r.LogRate
}

// Steps is how many steps there are: one, unless the user named some. Only
// canary deployments have any.
func (d *Deployment) Steps() int {
	if d.Strategy != StrategyCanary {
		return 0
	}
	return max(1, len(d.Options.CanarySteps))
}

// Canaries is how many of n instances are to be new as long as the deployment
// is in one of its steps; false when it is not.
func (d *Deployment) Canaries(n int) (int, bool) {
	if d.Step < 1 || d.Step > d.Steps() {
		return n, false
	}
	if len(d.Options.CanarySteps) == 0 {
		return min(1, n), true
	}
	// Rounded to the nearest, and at least one.
	weight := d.Options.CanarySteps[d.Step-1]
	return min(max(1, (n*weight+50)/100), n), true
}

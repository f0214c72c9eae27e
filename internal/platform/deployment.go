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

// Deployment replaces the instances of an app's web process step by step. The
// process is updated when the deployment is created. Before holds its previous
// values, for the instances that are not replaced yet and for a cancellation.
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
	// Step is the step of a canary deployment, counted from 1. After the last one
	// it continues like a rolling deployment.
	Step   int
	Before WebRun
	// LastHealthy is when an instance of the new version last became ready.
	LastHealthy time.Time
	// RevisionGUID is the revision that it deploys, with its version; empty if the
	// app has no revisions.
	RevisionGUID    string
	RevisionVersion int
	// RolledBackTo is the version of the revision that a rollback is to; 0 in other
	// deployments.
	RolledBackTo int
	// Error is why it makes no progress, for the user.
	Error string
}

// DeploymentOptions are the options that users can set; nil keeps the value of the
// process.
type DeploymentOptions struct {
	WebInstances *int   `json:"web_instances,omitempty"`
	MemoryMB     *int   `json:"memory_in_mb,omitempty"`
	DiskMB       *int   `json:"disk_in_mb,omitempty"`
	LogRate      *int64 `json:"log_rate,omitempty"`
	// CanarySteps are percentages of the instances.
	CanarySteps []int `json:"canary_steps,omitempty"`
}

// WebRun holds the fields of the web process that a deployment changes.
type WebRun struct {
	Version     string `json:"version"`
	DropletGUID string `json:"droplet_guid"`
	Instances   int    `json:"instances"`
	MemoryMB    int    `json:"memory_mb"`
	DiskMB      int    `json:"disk_mb"`
	LogRate     int64  `json:"log_rate"`
	// Those below change when a deployment is a rollback to a revision.
	RevisionGUID string      `json:"revision_guid,omitempty"`
	Command      string      `json:"command,omitempty"`
	User         string      `json:"user,omitempty"`
	Health       HealthCheck `json:"health"`
	Readiness    HealthCheck `json:"readiness"`
}

// WebRunOf returns the current values of a process.
func WebRunOf(p *Process) WebRun {
	return WebRun{
		p.Version, p.DropletGUID, p.Instances, p.MemoryMB, p.DiskMB, p.LogRate,
		p.RevisionGUID, p.Command, p.User, p.Health, p.Readiness,
	}
}

// Apply sets the fields of a process to these values.
func (r WebRun) Apply(p *Process) {
	p.Version, p.DropletGUID, p.Instances, p.MemoryMB, p.DiskMB, p.LogRate = r.Version, r.DropletGUID, r.Instances, r.MemoryMB, r.DiskMB, r.LogRate
	p.RevisionGUID, p.Command, p.User = r.RevisionGUID, r.Command, r.User
	if r.Health.Type != "" { // rows of older deployments have none
		p.Health, p.Readiness = r.Health, r.Readiness
	}
}

// Steps returns the number of canary steps: one unless the user named some, and
// none in a rolling deployment.
func (d *Deployment) Steps() int {
	if d.Strategy != StrategyCanary {
		return 0
	}
	return max(1, len(d.Options.CanarySteps))
}

// Canaries returns how many of n instances the current canary step replaces. It
// returns false if the deployment is in no such step.
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

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

// Deployment replaces the instances of an app's web process step by step, by those of
// a new web process.
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
	Step int
	// WebGUID is the web process that it creates, PriorGUID the one that a
	// cancellation returns to.
	WebGUID   string
	PriorGUID string
	// Instances is the number of instances in the end, Original that before.
	Instances int
	Original  int
	// LastHealthy is when an instance of the new version last became ready.
	LastHealthy time.Time
	// RevisionGUID is the revision that it deploys, with its version; empty if the
	// app has no revisions.
	RevisionGUID    string
	RevisionVersion int
	// RolledBackTo is the version of the revision that a rollback is to; 0 in other
	// deployments.
	RolledBackTo int
	// Error is why it makes no progress or was canceled by the platform, for the user.
	Error string
}

// DeploymentOptions are the options that users can set; nil keeps the value of the
// process.
type DeploymentOptions struct {
	WebInstances *int   `json:"web_instances,omitempty"`
	MemoryMB     *int   `json:"memory_in_mb,omitempty"`
	DiskMB       *int   `json:"disk_in_mb,omitempty"`
	LogRate      *int64 `json:"log_rate,omitempty"`
	// MinHealthyMS is how many milliseconds a new instance has to be ready before it counts.
	MinHealthyMS *int64 `json:"min_healthy_ms,omitempty"`
	// CanarySteps are percentages of the instances.
	CanarySteps []int `json:"canary_steps,omitempty"`
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

package platform

import (
	"slices"
	"strings"
	"time"

	"ingot/internal/base/fault"
)

// RotationState is the progress of the rotation of a binding's credentials.
//
//	creating ──▶ applying ──▶ grace ──▶ revoked
//	    └──────▶ failed
type RotationState string

// The states of a rotation. While applying, instances that were started with the old
// credentials are told, or replaced. In the grace period nothing known to the platform uses
// the old credentials any more.
const (
	RotationCreating RotationState = "creating"
	RotationApplying RotationState = "applying"
	RotationGrace    RotationState = "grace"
	RotationRevoked  RotationState = "revoked"
	RotationFailed   RotationState = "failed"
)

// Over reports whether the state is final.
func (s RotationState) Over() bool { return s == RotationRevoked || s == RotationFailed }

// UnfinishedRotations are the states that are not final.
var UnfinishedRotations = []any{RotationCreating, RotationApplying, RotationGrace}

// RotationMethod is how the instances of an app get new credentials.
type RotationMethod string

// The methods. ByNothing is for service keys, stopped apps, brokers that return the same
// credentials again, and requests without restarts.
const (
	ByRestart RotationMethod = "restart"
	ByFiles   RotationMethod = "files"
	ByNothing RotationMethod = "none"
)

// CredentialRotation replaces the credentials of one binding.
type CredentialRotation struct {
	Resource
	// RequestGUID is the job of the request, which may rotate several bindings.
	RequestGUID  string
	InstanceGUID string
	BindingGUID  string
	AppGUID      string // of app bindings
	SpaceGUID    string // of the binding
	// OldID and NewID are the broker's ids of the old and the new credentials.
	OldID, NewID   string
	State          RotationState
	Method         RotationMethod
	DeploymentGUID string // of ByRestart
	// Waits are the instances and tasks that were running when the credentials changed, and
	// were not told: the old credentials are not revoked while one of them runs.
	Waits        []string
	GraceSeconds int
	// Restart is whether the app may be restarted, Forced whether the old credentials are
	// revoked although instances may use them.
	Restart, Forced bool
	RevokeAt        time.Time // in the grace period and afterwards
	// Description is for the user: what failed, or why nothing was restarted.
	Description string
}

// AwaitsDeployment reports whether the app is restarted only when another deployment is over.
func (r *CredentialRotation) AwaitsDeployment() bool {
	return r.State == RotationApplying && r.Method == ByRestart && r.DeploymentGUID == ""
}

// AtBroker returns the broker's id of a binding.
func (b *ServiceBinding) AtBroker() string {
	if b.BrokerID != "" {
		return b.BrokerID
	}
	return b.GUID
}

// OnCredentialsNone is the value of Process.OnCredentials of programs that read their service
// files whenever they need them; OnCredentialsRestart is the default. The other values are
// names of signals.
const (
	OnCredentialsNone    = "none"
	OnCredentialsRestart = "restart"
)

// CredentialSignals are the signals that members can ask for.
var CredentialSignals = []string{"SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH"}

// CheckOnCredentials refuses what is not a value of Process.OnCredentials.
func CheckOnCredentials(s string) error {
	if s == "" || s == OnCredentialsNone || s == OnCredentialsRestart || slices.Contains(CredentialSignals, s) {
		return nil
	}
	return fault.Invalid("On credentials must be restart, none, or one of " + strings.Join(CredentialSignals, ", "))
}

package platform

// TaskState says how far a task is.
//
//	PENDING ──▶ RUNNING ──▶ SUCCEEDED
//	   │           ├──────▶ FAILED
//	   └───┬───────┘          ▲
//	       ▼ the user does not want it any more
//	   CANCELING ─────────────┘
type TaskState string

// The states of a task.
const (
	TaskPending   TaskState = "PENDING"
	TaskRunning   TaskState = "RUNNING"
	TaskCanceling TaskState = "CANCELING"
	TaskSucceeded TaskState = "SUCCEEDED"
	TaskFailed    TaskState = "FAILED"
)

// Over reports whether nothing more happens to the task.
func (s TaskState) Over() bool { return s == TaskSucceeded || s == TaskFailed }

// ActiveTasks are the states of tasks that are not over, as a condition.
func ActiveTasks() Cond {
	return In("state", string(TaskPending), string(TaskRunning), string(TaskCanceling))
}

// Task is one run of a command with an app's droplet. The guid is the engine's
// id of its instance.
type Task struct {
	Resource
	Metadata
	AppGUID string
	// Sequence is its number among the tasks of the app, never used again.
	Sequence int
	Name     string
	// Command may hold secrets and is encrypted.
	Command     string
	DropletGUID string
	State       TaskState
	// Reason is why it failed, for the user.
	Reason   string
	MemoryMB int
	DiskMB   int
	LogRate  int64 // bytes a second; -1 means no limit
}

// Source is where the lines of a task come from, in the app's log.
func (t *Task) Source() string { return "APP/TASK/" + t.Name }

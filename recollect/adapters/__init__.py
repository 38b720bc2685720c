"""What plugs into frameworks, and what the plugs share. A plug needs its framework, and all see the same memory."""

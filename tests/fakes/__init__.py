"""Stand-ins for what takes long: stages that behave like the real ones towards everything around them, without
TensorFlow and in milliseconds."""

-- Checks what a step has deferred to the end of its transaction while its role and its search path are in force: behind
-- leave_step, triggers of others would have the engine's rights.
set constraints all immediate
